"""Convolution rules: folds into weights, bias and activation epilogues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.plugins import hookimpl

if TYPE_CHECKING:
    from autofusion.fusion.rule import RulePack


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``conv``."""
    from autofusion_rules_conv.pack import PACK

    return [PACK]
