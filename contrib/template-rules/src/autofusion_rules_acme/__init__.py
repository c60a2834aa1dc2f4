"""The entry point of the rule pack. Only hooks here; what they need is imported inside, so that listing stays fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.rules import hookimpl

if TYPE_CHECKING:
    from autofusion.rules import RulePack


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``acme``."""
    from autofusion_rules_acme.pack import PACK

    return [PACK]
