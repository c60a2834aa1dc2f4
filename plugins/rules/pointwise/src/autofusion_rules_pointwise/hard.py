"""HardSigmoid and HardSwish from their pieces."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.rules import (
    Builder,
    Either,
    Match,
    Operand,
    Refusal,
    RewriteRule,
    const,
    either,
    is_float,
    op,
    scalar,
    var,
)

_X = var("x", where=is_float)
_SIX, _SIXTH = const("six", 6.0), const("sixth", 1 / 6)


def _clamped(x: Operand, low: float, high: float) -> Either:
    """``x`` between two constants: a Clip, or a Min of a Max (or Relu)."""
    lower, upper = const("lower", low), const("upper", high)
    floor = op("Max", x, lower)

    def has_upper(node: Node) -> bool:
        """Another upper bound is another function, not a near-miss."""
        return any((number := scalar(v)) is not None and abs(number - high) <= 0.01 * high for v in node.inputs[1:])

    relu_or_max = either(op("Relu", x), floor) if low == 0 else floor
    return either(op("Clip", x, lower, upper, where=has_upper), op("Min", relu_or_max, upper))


_RELU6 = _clamped(op("Add", _X, const("three", 3.0)), 0.0, 6.0)


def _gates_itself(node: Node) -> bool:
    """True for ``x * f(x)``; a gate computed from something else is no near-miss."""
    return any(v is not None and v.producer is not None and v.producer.inputs[0] in node.inputs for v in node.inputs)


HARD_SWISH = RewriteRule(
    "pointwise.hard_swish",
    either(
        op("Mul", _X, op("HardSigmoid", _X, alpha=1 / 6, beta=0.5), where=_gates_itself),
        op("Div", op("Mul", _X, _RELU6), _SIX),
        op("Mul", op("Mul", _X, _RELU6), _SIXTH),
        op("Mul", _X, op("Div", _RELU6, _SIX)),
        op("Mul", _X, op("Mul", _RELU6, _SIXTH)),
        op("Mul", op("Div", _X, _SIX), _RELU6),
        op("Mul", op("Mul", _X, _SIXTH), _RELU6),
    ),
    lambda match, builder: [builder.op("HardSwish", match["x"], name=match.root.name)],
    priority=6,
    doc="""Recognise HardSwish.

    Before: %y = Div(Mul(%x, Clip(Add(%x, 3), 0, 6)), 6)
    After:  %y = HardSwish(%x)
    In any order, with Mul by 1/6, or as x * HardSigmoid(x) with alpha 1/6 and beta 1/2.
    Refuses when: a constant differs by more than rounding; a piece is used elsewhere.
    """,
)


def _rewrite_sixth(match: Match, builder: Builder) -> list[Value]:
    return [builder.op("HardSigmoid", match["x"], name=match.root.name, alpha=1 / 6, beta=0.5)]


HARD_SIGMOID_6 = RewriteRule(
    "pointwise.hard_sigmoid_6",
    either(op("Div", _RELU6, _SIX), op("Mul", _RELU6, _SIXTH)),
    _rewrite_sixth,
    priority=5,
    doc="""Recognise HardSigmoid written with a Relu6.

    Before: %y = Div(Clip(Add(%x, 3), 0, 6), 6)
    After:  %y = HardSigmoid(%x) {alpha = 1/6, beta = 0.5}
    Refuses when: a constant differs by more than rounding; a piece is used elsewhere.
    """,
)


def _rewrite_line(match: Match, builder: Builder) -> list[Value] | Refusal:
    x, result = match["x"].shape, match.root.output.shape
    if x is None or result is None or len(x) != len(result):
        return Refusal(f"{match.root.label}: a constant may raise the rank of '{match['x'].name}'", match["x"])
    alpha, beta = (float(match.array(name).reshape(())) for name in ("alpha", "beta"))
    return [builder.op("HardSigmoid", match["x"], name=match.root.name, alpha=alpha, beta=beta)]


def _is_number(data: np.ndarray) -> bool:
    return data.size == 1


HARD_SIGMOID = RewriteRule(
    "pointwise.hard_sigmoid",
    _clamped(op("Add", op("Mul", _X, const("alpha", where=_is_number)), const("beta", where=_is_number)), 0.0, 1.0),
    _rewrite_line,
    priority=5,
    doc="""Recognise HardSigmoid.

    Before: %y = Clip(Add(Mul(%x, 0.2), 0.5), 0, 1)
    After:  %y = HardSigmoid(%x) {alpha = 0.2, beta = 0.5}
    Refuses when: a constant is not a single number, or enlarges %x; a piece is used elsewhere.
    """,
)

RULES = (HARD_SWISH, HARD_SIGMOID_6, HARD_SIGMOID)
