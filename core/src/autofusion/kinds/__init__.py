"""Fused kinds: what rules emit and kernels run. ``autofusion.rules`` and ``autofusion.kernels`` both export them."""

from autofusion.kinds.attention import ATTENTION, AttentionKind, AttentionParts
from autofusion.kinds.factors import MOVES, Factor, factor_of, scaled
from autofusion.kinds.kind import ANY_KIND, FusedKind, find, operand_of, table
from autofusion.kinds.standard import (
    CONV,
    INTEGER_CONV,
    INTEGER_MATMUL,
    LAYER_NORM,
    MATMUL,
    POINTWISE,
    REDUCTION,
    SOFTMAX,
    STANDARD,
)

__all__ = [
    "ANY_KIND",
    "ATTENTION",
    "CONV",
    "INTEGER_CONV",
    "INTEGER_MATMUL",
    "LAYER_NORM",
    "MATMUL",
    "MOVES",
    "POINTWISE",
    "REDUCTION",
    "SOFTMAX",
    "STANDARD",
    "AttentionKind",
    "AttentionParts",
    "Factor",
    "FusedKind",
    "factor_of",
    "find",
    "operand_of",
    "scaled",
    "table",
]
