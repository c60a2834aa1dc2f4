"""Sums divided by the number of their terms are means; whoever looks for one then finds one form."""

from __future__ import annotations

import math

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, RewriteRule, const, either, ints, is_float, normal_axis, op, scalar, var

_CLOSE = 1e-6
"""Relative; a factor is a rounded quotient."""


def _is_mean(node: Node) -> bool:
    """True if the sum behind ``node`` is divided by as many as there are terms."""
    found = next((v.producer for v in node.inputs if v is not None and v.producer is not None), None)
    number = next((n for v in node.inputs if (n := scalar(v)) is not None), None)
    if found is None or not number or found.op not in ("ReduceSum", "ReduceSumSquare"):
        return False
    x, axes = found.inputs[0], ints(found.operand(1))
    if x is None or x.shape is None or not axes:
        return False
    sizes = [x.shape[normal_axis(axis, len(x.shape))] for axis in axes]
    if not all(isinstance(size, int) for size in sizes):
        return False
    terms = math.prod(int(size) for size in sizes if isinstance(size, int))
    wanted = terms if node.op == "Div" else 1 / terms if terms else 0
    return math.isclose(number, wanted, rel_tol=_CLOSE) and node.output.shape == found.output.shape


def _mean(match: Match, builder: Builder) -> list[Value]:
    total, x = match.node("total"), match["x"]
    if total.op == "ReduceSumSquare":
        x = builder.op("Mul", x, x)
    attrs = {"keepdims": attribute(total, "keepdims")}
    return [builder.node("ReduceMean", [x, *total.inputs[1:]], attrs, name=match.root.name).output]


_TOTAL = op(("ReduceSum", "ReduceSumSquare"), var("x", where=is_float), open_inputs=True, name="total")

MEAN = RewriteRule(
    "pointwise.mean",
    either(
        op("Div", _TOTAL, const("count"), where=_is_mean),
        op("Mul", _TOTAL, const("count"), where=_is_mean),
    ),
    _mean,
    priority=2,
    doc="""Recognise a mean.

    Before: %y = Div(ReduceSum(%x, [-1]), 64)              %x: [N, 64]
    After:  %y = ReduceMean(%x, [-1])
    Also for a multiplication by the inverse, and for a sum of squares: the mean of squares.
    Refuses when: the sum is used elsewhere.
    """,
)

RULES = (MEAN,)
