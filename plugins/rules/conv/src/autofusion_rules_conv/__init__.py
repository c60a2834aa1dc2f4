"""Convolution rules: folds into weights, bias and activation epilogues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.rules import hookimpl

if TYPE_CHECKING:
    from autofusion.rules import RulePack

known_failures = {
    "test_special_numbers[conv.fold_scale]": "weights that would be denormal become 0, and 0 times infinity is NaN",
}
"""For the conformance kit: standard tests that fail, and why."""


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``conv``."""
    from autofusion_rules_conv.pack import PACK

    return [PACK]
