"""Pointwise operators of two or more operands, with numpy's broadcasting."""

from __future__ import annotations

import functools

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter

_SIMPLE = {
    "Add": "Add",
    "AddV2": "Add",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Div": "Div",
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "Maximum": "Max",
    "Minimum": "Min",
    "Mul": "Mul",
    "Pow": "Pow",
    "RealDiv": "Div",
    "Sub": "Sub",
    "TruncateDiv": "Div",
}


@converter(*_SIMPLE)
def simple(call: Call) -> Value:
    """The same operator; a Div of integers truncates in both."""
    return call.emit(_SIMPLE[call.op], call.operand(0), call.operand(1))


@converter("NotEqual")
def not_equal(call: Call) -> Value:
    """The opposite of Equal."""
    return call.emit("Not", call.emit("Equal", call.operand(0), call.operand(1)))


@converter("AddN", "AccumulateNV2")
def add_all(call: Call) -> Value:
    """The sum of operands of one shape."""
    if len(call.inputs) == 2:
        return call.emit("Add", *call.inputs)
    if call.dtype(call.operand(0)).kind == "f":
        return call.emit("Sum", *call.inputs)
    return functools.reduce(lambda a, b: call.emit("Add", a, b), call.inputs)


@converter("SquaredDifference")
def squared_difference(call: Call) -> Value:
    """(a - b) squared."""
    difference = call.emit("Sub", call.operand(0), call.operand(1))
    return call.emit("Mul", difference, difference)


@converter("FloorDiv")
def floor_divide(call: Call) -> Value:
    """Rounds down, where the IR's Div of integers truncates."""
    a, b = call.operand(0), call.operand(1)
    if call.dtype(a).kind == "f":
        return call.emit("Floor", call.emit("Div", a, b))
    return call.emit("Div", call.emit("Sub", a, call.emit("Mod", a, b)), b)


@converter("FloorMod")
def floor_modulo(call: Call) -> Value:
    """The sign is that of the divisor."""
    a, b = call.operand(0), call.operand(1)
    if call.dtype(a).kind != "f":
        return call.emit("Mod", a, b)
    rest = call.emit("Mod", a, b, fmod=1)
    zero = call.like(0, a)
    signs = call.emit("Xor", call.emit("Less", b, zero), call.emit("Less", rest, zero))
    wrong = call.emit("And", call.emit("Not", call.emit("Equal", rest, zero)), signs)
    return call.emit("Where", wrong, call.emit("Add", rest, b), rest)


@converter("Mod", "TruncateMod")
def truncated_modulo(call: Call) -> Value:
    """The sign is that of the dividend."""
    return call.emit("Mod", call.operand(0), call.operand(1), fmod=1)


@converter("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py")
def guarded(call: Call) -> Value:
    """Zero where one operand is, whatever the other: the divisor of DivNoNan, the factor of the rest."""
    x, y = call.operand(0), call.operand(1)
    guard = x if call.op.startswith("X") else y
    if call.op == "MulNoNan":
        value = call.emit("Mul", x, y)
    elif call.op in ("DivNoNan", "Xdivy"):
        value = call.emit("Div", x, y)
    else:
        inner = y if call.op == "Xlogy" else call.emit("Add", y, call.like(1, y))
        value = call.emit("Mul", x, call.emit("Log", inner))
    return call.emit("Where", call.emit("Equal", guard, call.like(0, x)), call.like(0, x), value)


@converter("Atan2")
def angle(call: Call) -> Value:
    """Operands: y and x of a point."""
    return angle_of(call, call.operand(0), call.operand(1))


def angle_of(call: Call, y: Value, x: Value) -> Value:
    """The angle of a point, by the quadrant that it lies in; zeros have signs, and two infinities are a diagonal."""
    far = call.emit("And", call.emit("IsInf", y), call.emit("IsInf", x))
    y, x = (call.emit("Where", far, call.emit("Sign", v), v) for v in (y, x))
    zero, pi = call.like(0, x), call.like(np.pi, x)

    def negative(v: Value) -> Value:
        return call.emit("Less", call.emit("Where", _is_zero(call, v), call.emit("Reciprocal", v), v), zero)

    origin = call.emit("And", _is_zero(call, y), _is_zero(call, x))
    base = call.emit("Where", origin, y, call.emit("Atan", call.emit("Div", y, x)))
    turn = call.emit("Where", negative(y), call.emit("Neg", pi), pi)
    return call.emit("Where", negative(x), call.emit("Add", base, turn), base)


def _is_zero(call: Call, value: Value) -> Value:
    return call.emit("Equal", value, call.like(0, value))


@converter("LeftShift", "RightShift")
def shift(call: Call) -> Value:
    """By a number of bits."""
    a, b = call.operand(0), call.operand(1)
    dtype = call.dtype(a)
    if dtype.kind == "u":
        return call.emit("BitShift", a, b, direction="LEFT" if call.op == "LeftShift" else "RIGHT")
    factor = call.cast(call.emit("Pow", call.const(2, np.int64), call.cast(b, np.int64)), dtype)
    if call.op == "LeftShift":
        return call.emit("Mul", a, factor)
    return call.emit("Div", call.emit("Sub", a, call.emit("Mod", a, factor)), factor)


@converter("ApproximateEqual")
def nearly_equal(call: Call) -> Value:
    """Within a tolerance."""
    a, b = call.operand(0), call.operand(1)
    distance = call.emit("Abs", call.emit("Sub", a, b))
    return call.emit("Less", distance, call.like(float(call.attr("tolerance", 1e-5)), a))


@converter("BiasAdd", "BiasAddV1")
def bias_add(call: Call) -> Value:
    """Along the last axis, or along axis 1 of channels-first data; the bias may be computed."""
    x, bias = call.operand(0), call.operand(1)
    if call.attr("data_format", "NHWC").startswith("NC"):
        rank = call.rank(x)
        if rank > 2:
            bias = call.reshape(bias, [-1, *[1] * (rank - 2)])
    return call.emit("Add", x, bias)


@converter("Select")
def select(call: Call) -> Value:
    """A vector condition selects rows of operands with more axes."""
    condition, a, b = (call.operand(i) for i in range(3))
    rank = call.rank(a)
    if call.rank(condition) == 1 and rank > 1:
        condition = call.reshape(condition, [-1, *[1] * (rank - 1)])
    return call.emit("Where", condition, a, b)


@converter("SelectV2")
def select_v2(call: Call) -> Value:
    """All three broadcast."""
    return call.emit("Where", *(call.operand(i) for i in range(3)))
