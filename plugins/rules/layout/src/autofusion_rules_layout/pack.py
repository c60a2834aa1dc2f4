"""The rules of the pack, in one list."""

from __future__ import annotations

from autofusion.rules import RulePack
from autofusion_rules_layout import batch, no_op, parts, reshape, sink, transpose, view

PACK = RulePack(
    name="layout",
    version="0.1.0",
    rules=(*no_op.RULES, *transpose.RULES, *sink.RULES, *reshape.RULES, *view.RULES, *batch.RULES, *parts.RULES),
)
