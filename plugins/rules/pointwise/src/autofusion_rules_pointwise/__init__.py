"""Pointwise rules: activations recomposed, identities, pointwise and reduction regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.rules import hookimpl

if TYPE_CHECKING:
    from autofusion.rules import RulePack


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``pointwise``."""
    from autofusion_rules_pointwise.pack import PACK

    return [PACK]
