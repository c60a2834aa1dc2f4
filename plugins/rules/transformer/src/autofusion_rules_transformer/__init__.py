"""Transformer rules: LayerNormalization and Softmax recomposed, matrix product epilogues, attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.plugins import hookimpl

if TYPE_CHECKING:
    from autofusion.fusion.rule import RulePack


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``transformer``."""
    from autofusion_rules_transformer.pack import PACK

    return [PACK]
