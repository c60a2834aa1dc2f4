"""The rules of the pack, in one list."""

from __future__ import annotations

from importlib.metadata import version

from autofusion.rules import RulePack
from autofusion_rules_pointwise import (
    clip,
    common_subexpression,
    gelu,
    hard,
    identities,
    mean,
    mish,
    prelu,
    reduction,
    region,
)

PACK = RulePack(
    name="pointwise",
    version=version("autofusion-rules-pointwise"),
    rules=(
        *common_subexpression.RULES,
        *identities.RULES,
        *mean.RULES,
        *gelu.RULES,
        *mish.RULES,
        *prelu.RULES,
        *hard.RULES,
        *clip.RULES,
        *region.RULES,
        *reduction.RULES,
    ),
)
