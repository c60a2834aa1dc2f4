"""Transformer rules: LayerNormalization and Softmax recomposed, matrix product epilogues, attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.rules import hookimpl

if TYPE_CHECKING:
    from autofusion.rules import RulePack


known_failures = {
    "test_never_worse[transformer.attention_operator]": "the cost model prices the operator as a kernel would run it",
    "test_never_worse[transformer.einsum_product]": "the cost model prices an Einsum as a product would run it",
    "test_never_worse[transformer.rms_norm]": "its pieces are one reduction, which is priced a little lower",
    "test_never_worse[transformer.recurrent_loop]": "the cost model prices a Loop at nothing",
}
"""For the conformance kit: standard tests that fail, and why."""


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The pack ``transformer``."""
    from autofusion_rules_transformer.pack import PACK

    return [PACK]
