"""The rules of the pack, in one list."""

from __future__ import annotations

from importlib.metadata import version

from autofusion.rules import RulePack
from autofusion_rules_transformer import (
    attention,
    attention_operator,
    einsum,
    gemm,
    group_norm,
    layer_norm,
    layer_norm_affine,
    matmul,
    norm_epilogue,
    recurrent,
    softmax,
    softmax_epilogue,
    unflatten,
)

PACK = RulePack(
    name="transformer",
    version=version("autofusion-rules-transformer"),
    rules=(
        *layer_norm.RULES,
        *layer_norm_affine.RULES,
        *group_norm.RULES,
        *softmax.RULES,
        *gemm.RULES,
        *einsum.RULES,
        *unflatten.RULES,
        *recurrent.RULES,
        *attention_operator.RULES,
        *attention.RULES,
        *matmul.RULES,
        *norm_epilogue.RULES,
        *softmax_epilogue.RULES,
    ),
)
