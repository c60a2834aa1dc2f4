"""The rules of the pack, in one list."""

from __future__ import annotations

from importlib.metadata import version

from autofusion.rules import RulePack
from autofusion_rules_layout import batch, no_op, parts, reshape, sink, transpose, view

PACK = RulePack(
    name="layout",
    version=version("autofusion-rules-layout"),
    rules=(*no_op.RULES, *transpose.RULES, *sink.RULES, *reshape.RULES, *view.RULES, *batch.RULES, *parts.RULES),
)
