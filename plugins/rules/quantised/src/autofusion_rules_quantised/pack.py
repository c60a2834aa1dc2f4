"""The rules of the pack, in one list."""

from __future__ import annotations

from importlib.metadata import version

from autofusion.rules import RulePack
from autofusion_rules_quantised import conv, fold, pointwise, products, qdq_matmul, qlinear_matmul, table, through

PACK = RulePack(
    name="quantised",
    version=version("autofusion-rules-quantised"),
    rules=(
        *through.RULES,
        *qlinear_matmul.RULES,
        *qdq_matmul.RULES,
        *conv.RULES,
        *fold.RULES,
        *table.RULES,
        *products.RULES,
        *pointwise.RULES,
    ),
    unfolded=frozenset({"DequantizeLinear"}),
)
