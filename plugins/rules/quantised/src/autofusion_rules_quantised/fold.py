"""Quantised constants that no rule has taken as they are: real ones, computed ahead of time."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Value
from autofusion.rules import Builder, Match, Refusal, RewriteRule, Stage, const, op, var
from autofusion_rules_quantised.scales import real_of


def _rewrite(match: Match, builder: Builder) -> Sequence[Value] | Refusal:
    data = real_of(match.root)
    if data is None:
        return Refusal(f"{match.root.label}: its scale or its zero point is not constant", match.root)
    return [builder.constant(data, name=match.root.output.name)]


RULE = RewriteRule(
    "quantised.fold_dequantised",
    op("DequantizeLinear", const("x"), const("scale"), var("zero", optional=True)),
    _rewrite,
    stage=Stage.FOLD,
    doc="""Compute a dequantised constant ahead of time.

    Before: %y = Conv(%x, DequantizeLinear(%w, %scale, %zero))
    After:  %y = Conv(%x, (%w - %zero) * %scale)
    Refuses when: the scale or the zero point is computed.
    """,
    portable=False,
)

RULES = (RULE,)
