"""Layout rules: Transposes, Reshapes and Identities that cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.rules import hookimpl

if TYPE_CHECKING:
    from autofusion.rules import RulePack

known_failures = {
    "test_never_worse[layout.lift_transpose]": "a Transpose before a node that narrows moves more bytes",
    "test_never_worse[layout.drop_expand]": "operators that read one Expand are one step, and then no longer",
}
"""For the conformance kit: standard tests that fail, and why."""


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``layout``."""
    from autofusion_rules_layout.pack import PACK

    return [PACK]
