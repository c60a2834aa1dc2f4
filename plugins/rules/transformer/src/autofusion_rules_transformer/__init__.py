"""Transformer rules: LayerNormalization and Softmax recomposed, matrix product epilogues, attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.rules import hookimpl

if TYPE_CHECKING:
    from autofusion.rules import RulePack


known_failures = {
    "test_never_worse[transformer.attention_pieces]": "the cost model does not know that no kernel runs an Attention",
    "test_never_worse[transformer.rms_norm]": "its pieces are one reduction, which is priced a little lower",
}
"""For the conformance kit: standard tests that fail, and why."""


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``transformer``."""
    from autofusion_rules_transformer.pack import PACK

    return [PACK]
