"""Rules for quantised models: integer products with their scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.rules import hookimpl

if TYPE_CHECKING:
    from autofusion.rules import RulePack

known_failures = {
    f"test_never_worse[quantised.{rule}]": "the cost model prices the operator as a kernel would run it"
    for rule in ("qlinear_matmul", "qlinear_conv")
} | {
    "test_never_worse[quantised.table]": "a table takes as long as 256 numbers, the kit's tensors have fewer",
}
"""For the conformance kit: standard tests that fail, and why."""


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``quantised``."""
    from autofusion_rules_quantised.pack import PACK

    return [PACK]
