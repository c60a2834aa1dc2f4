"""Softmax and LogSoftmax from their pieces."""

from __future__ import annotations

from collections.abc import Callable

from autofusion.ir.graph import Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, Refusal, RewriteRule, either, ints, is_float, normal_axis, op, var

_X = var("x", where=is_float)
_SHIFTED = op("Sub", _X, op("ReduceMax", _X, open_inputs=True, name="max"), name="shifted")
_EXP = op("Exp", _SHIFTED, name="exp")
_SUM = op("ReduceSum", _EXP, open_inputs=True, name="sum")


def _axis(match: Match) -> int | Refusal:
    x = match["x"]
    if x.shape is None:
        return Refusal(f"the rank of '{x.name}' is not known", x)
    found = set()
    for name in ("max", "sum"):
        node = match.named[name]
        axes = ints(node.operand(1))
        if axes is None or len(axes) != 1 or not attribute(node, "keepdims"):
            return Refusal(f"{node.label}: it does not reduce and keep exactly one axis", node)
        found.add(normal_axis(axes[0], len(x.shape)))
    if len(found) != 1:
        return Refusal(f"{match.root.label}: maximum and sum are taken over other axes", match.root)
    return found.pop()


def _rewrite_as(name: str) -> Callable[[Match, Builder], list[Value] | Refusal]:
    def rewrite(match: Match, builder: Builder) -> list[Value] | Refusal:
        axis = _axis(match)
        if isinstance(axis, Refusal):
            return axis
        return [builder.op(name, match["x"], name=match.root.name, axis=axis)]

    return rewrite


SOFTMAX = RewriteRule(
    "transformer.softmax",
    either(op("Div", _EXP, _SUM), op("Mul", _EXP, op("Reciprocal", _SUM))),
    _rewrite_as("Softmax"),
    doc="""Recognise Softmax.

    Before: %e = Exp(Sub(%x, ReduceMax(%x, [-1]))); %y = Div(%e, ReduceSum(%e, [-1]))
    After:  %y = Softmax(%x) {axis = -1}
    Refuses when: maximum and sum do not keep one and the same axis; a piece is used elsewhere.
    """,
)

LOG_SOFTMAX = RewriteRule(
    "transformer.log_softmax",
    op("Sub", _SHIFTED, op("Log", _SUM)),
    _rewrite_as("LogSoftmax"),
    doc="""Recognise LogSoftmax.

    Before: %d = Sub(%x, ReduceMax(%x, [-1])); %y = Sub(%d, Log(ReduceSum(Exp(%d), [-1])))
    After:  %y = LogSoftmax(%x) {axis = -1}
    Refuses when: as transformer.softmax.
    """,
)

RULES = (SOFTMAX, LOG_SOFTMAX)
