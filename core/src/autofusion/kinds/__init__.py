"""Fused kinds: what rules emit and kernels run. ``autofusion.rules`` and ``autofusion.kernels`` both export them."""

from autofusion.kinds.attention import ATTENTION, AttentionKind, AttentionParts, scaled, swaps_last_axes
from autofusion.kinds.kind import ANY_KIND, FusedKind, find, operand_of, table
from autofusion.kinds.standard import CONV, LAYER_NORM, MATMUL, POINTWISE, REDUCTION, SOFTMAX, STANDARD

__all__ = [
    "ANY_KIND",
    "ATTENTION",
    "CONV",
    "LAYER_NORM",
    "MATMUL",
    "POINTWISE",
    "REDUCTION",
    "SOFTMAX",
    "STANDARD",
    "AttentionKind",
    "AttentionParts",
    "FusedKind",
    "find",
    "operand_of",
    "scaled",
    "swaps_last_axes",
    "table",
]
