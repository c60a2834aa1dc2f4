"""The rules of the pack, in one list."""

from __future__ import annotations

from importlib.metadata import version

from autofusion.rules import RulePack
from autofusion_rules_conv import batch_norm, epilogue, fold_affine, fold_input, fold_pad, global_pool

PACK = RulePack(
    name="conv",
    version=version("autofusion-rules-conv"),
    rules=(
        *batch_norm.RULES,
        *fold_affine.RULES,
        *fold_input.RULES,
        *fold_pad.RULES,
        *global_pool.RULES,
        *epilogue.RULES,
    ),
)
