"""The rules of the pack, in one list."""

from __future__ import annotations

from autofusion.rules import RulePack
from autofusion_rules_transformer import (
    attention,
    attention_pieces,
    einsum,
    gemm,
    group_norm,
    layer_norm,
    layer_norm_affine,
    matmul,
    norm_epilogue,
    softmax,
    softmax_epilogue,
    unflatten,
)

PACK = RulePack(
    name="transformer",
    version="0.1.0",
    rules=(
        *layer_norm.RULES,
        *layer_norm_affine.RULES,
        *group_norm.RULES,
        *softmax.RULES,
        *gemm.RULES,
        *attention_pieces.RULES,
        *einsum.RULES,
        *unflatten.RULES,
        *attention.RULES,
        *matmul.RULES,
        *norm_epilogue.RULES,
        *softmax_epilogue.RULES,
    ),
)
