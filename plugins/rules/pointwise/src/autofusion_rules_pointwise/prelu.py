"""PRelu from its pieces, as frameworks without the operator write it."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion.rules import Builder, Match, Refusal, RewriteRule, const, either, fits_into, is_float, op, var

_X = var("x", where=is_float)


def _rewrite(match: Match, builder: Builder) -> list[Value] | Refusal:
    slope, x = match.array("slope"), match["x"]
    if not np.isfinite(slope.astype(np.float64)).all():
        return Refusal(f"the slope '{match['slope'].name}' is not finite", match["slope"])
    if not fits_into(slope.shape, x.shape):
        return Refusal(f"the slope '{match['slope'].name}' may enlarge '{x.name}'", match["slope"])
    slope = builder.constant(-slope if match.root.op == "Add" else slope, name="slope")
    return [builder.op("PRelu", x, slope, name=match.root.name)]


_NEGATIVE = op("Mul", op("Relu", op("Neg", _X)), const("slope"))

PRELU = RewriteRule(
    "pointwise.prelu",
    either(op("Add", op("Relu", _X), _NEGATIVE), op("Sub", op("Relu", _X), _NEGATIVE)),
    _rewrite,
    priority=5,
    doc="""Recognise PRelu.

    Before: %y = Add(Relu(%x), Mul(Relu(Neg(%x)), %minus_slope))
    After:  %y = PRelu(%x, %slope)
    Refuses when: the slope is not a constant, not finite, or enlarges %x; a piece is used elsewhere.
    """,
)

RULES = (PRELU,)
