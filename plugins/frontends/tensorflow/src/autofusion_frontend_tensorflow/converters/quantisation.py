"""Fake quantisation, which training for integers leaves in a graph: values rounded to the steps that integers have."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def _steps(call: Call, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The range moved so that zero is a step, and the size of a step."""
    bits, narrow = int(call.attr("num_bits", 8)), bool(call.attr("narrow_range", False))
    first, last = np.float32(narrow), np.float32(2**bits - 1)
    scale = (high - low) / (last - first)
    zero = first - low / scale
    zero = np.clip(
        np.where(zero < first, first, np.where(zero > last, last, np.floor(zero + np.float32(0.5)))), first, last
    )
    return (first - zero) * scale, (last - zero) * scale, scale


def _rounded(call: Call, low: np.ndarray, high: np.ndarray) -> Value:
    x = call.operand(0)
    low, high, scale = _steps(call, np.float32(low), np.float32(high))
    bottom, step = call.const(low, np.float32, "low"), call.const(scale, np.float32, "step")
    inside = call.emit("Max", call.emit("Min", x, call.const(high, np.float32, "high")), bottom)
    inverse = call.const(np.float32(1) / scale, np.float32, "inverse")
    number = call.emit("Mul", call.emit("Sub", inside, bottom), inverse)
    number = call.emit("Floor", call.emit("Add", number, call.const(0.5, np.float32)))
    return call.emit("Add", call.emit("Mul", number, step), bottom)


@converter("FakeQuantWithMinMaxArgs")
def by_attributes(call: Call) -> Value:
    """The range is in attributes."""
    return _rounded(call, np.float32(call.attr("min", -6.0)), np.float32(call.attr("max", 6.0)))


@converter("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def by_operands(call: Call) -> Value:
    """The range is in constant operands: numbers, or a vector along the last axis."""
    return _rounded(call, call.known(1, "least value"), call.known(2, "greatest value"))


_BOTH = ("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")


@converter(*_BOTH)
def quantised_and_back(call: Call) -> Value:
    """Operands: values, least and greatest value (numbers, or a vector along an axis), and in version 3 the bits.

    The range is stretched so that zero is a step and the outer step is the end that lies further out.
    """
    x, dtype = call.operand(0), call.dtype(call.operand(0))
    bits = call.known_int(3, "number of bits") if call.op.endswith("V3") else int(call.attr("num_bits", 8))
    signed, narrow = bool(call.attr("signed_input", True)), bool(call.attr("narrow_range", False))
    axis = int(call.attr("axis", -1))
    given = bool(call.attr("range_given", call.op.endswith("V3")))
    if given and len(call.inputs) > 2:
        low, high = call.operand(1), call.operand(2)
    elif given:
        low, high = (call.like(float(call.attr(name, 0.0)), x) for name in ("input_min", "input_max"))
    else:
        axes = [a for a in range(call.rank(x)) if a != axis] if axis >= 0 else list(range(call.rank(x)))
        low, high = (call.emit(op, x, call.ints(axes), keepdims=0) for op in ("ReduceMin", "ReduceMax"))
    first = -(2 ** (bits - 1)) + int(narrow) if signed else 0
    last = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    step = _step(call, low, high, first, last)
    if axis >= 0:
        step, low, high = (_along(call, v, axis, call.rank(x)) for v in (step, low, high))
    if given:
        bottom, top = (call.emit("Mul", step, call.const(n, dtype)) for n in (first, last))
        x = call.emit("Max", call.emit("Min", x, top), bottom)
    number = call.emit("Div", x, step)
    if call.attr("round_mode", "HALF_TO_EVEN") == "HALF_UP":
        number = call.emit("Floor", call.emit("Add", number, call.like(0.5, x)))
    else:
        number = call.emit("Round", number)
    return call.emit("Mul", call.emit("Min", number, call.const(last, dtype)), step)


def _along(call: Call, value: Value, axis: int, rank: int) -> Value:
    return call.reshape(value, [-1 if a == axis else 1 for a in range(rank)])


def _step(call: Call, low: Value, high: Value, first: int, last: int) -> Value:
    """The size of a step with which both ends of the range have their number; 1 where the range is empty."""
    least = call.like(0, low)
    sizes = [call.emit("Div", high, call.const(last, call.dtype(low)))]
    if first:
        sizes.append(call.emit("Div", low, call.const(first, call.dtype(low))))
    sizes = [call.emit("Max", size, least) for size in sizes]
    step = sizes[0] if len(sizes) == 1 else call.emit("Max", *sizes)
    return call.emit("Where", call.emit("Greater", step, least), step, call.like(1, low))


_MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


def _integers(call: Call, name: str) -> tuple[np.dtype, int, int]:
    """The integer type that an attribute names, its least and its greatest number."""
    dtype = call.dtype_attr(name, np.uint8)
    info = np.iinfo(dtype)
    return dtype, int(info.min), int(info.max)


@converter("QuantizeV2", outputs=("output", "output_min", "output_max"))
def quantised(call: Call) -> list[Value]:
    """Operands: values, and the range that the integers stand for. Results: integers, and the range as it was taken."""
    x, low, high = (call.cast(call.operand(i), np.float32) for i in range(3))
    dtype, first, last = _integers(call, "T")
    mode = str(call.attr("mode", "MIN_COMBINED"))
    if int(call.attr("axis", -1)) >= 0 or mode not in _MODES:
        call.fail(f"mode '{mode}' with a range for each of axis {call.attr('axis', -1)} is not supported")
    if mode == "SCALED":
        first += int(bool(call.attr("narrow_range", False)))
        step = _step(call, low, high, first if first < 0 else 0, last)
        low, high = (call.emit("Mul", step, call.const(n, np.float32)) for n in (first, last))
        number = call.emit("Div", x, step)
        even = call.attr("round_mode", "HALF_AWAY_FROM_ZERO") == "HALF_TO_EVEN"
        number = call.emit("Round", number) if even else _away_from_zero(call, number)
    else:
        low, high = _with_zero(call, low, high)
        step = _width(call, low, high, first, last)
        if mode == "MIN_FIRST" and not first:  # TensorFlow's kernel for these rounds once
            number = _away_from_zero(call, call.emit("Div", call.emit("Sub", x, low), step))
        elif mode == "MIN_FIRST":
            start = _away_from_zero(call, call.emit("Div", low, step))
            number = call.emit("Sub", _away_from_zero(call, call.emit("Div", x, step)), start)
            number = call.emit("Add", number, call.const(first, np.float32))
        else:
            held = call.emit("Max", call.emit("Min", x, high), low)
            number = call.emit("Div", call.emit("Sub", held, low), step)
            half = call.const(first if first else 0, np.float32)
            number = _away_from_zero(call, call.emit("Add", number, half) if first else number)
    limits = (call.const(first, np.float32), call.const(last, np.float32))
    number = call.emit("Max", call.emit("Min", number, limits[1]), limits[0])
    return [call.cast(number, dtype), low, high]


def _away_from_zero(call: Call, x: Value) -> Value:
    """Rounded, halves away from zero."""
    size = call.emit("Floor", call.emit("Add", call.emit("Abs", x), call.like(0.5, x)))
    return call.emit("Mul", call.emit("Sign", x), size)


def _with_zero(call: Call, low: Value, high: Value) -> tuple[Value, Value]:
    """The range with zero in it, and not narrower than a hundredth of its ends, as far as they exceed 1."""
    zero, one = call.like(0, low), call.like(1, low)
    low = call.emit("Min", low, zero)
    size = call.emit("Max", call.emit("Max", call.emit("Abs", low), call.emit("Abs", high)), one)
    least = call.emit("Mul", size, call.like(0.01, low))
    return low, call.emit("Max", call.emit("Max", high, zero), call.emit("Add", low, least))


def _width(call: Call, low: Value, high: Value, first: int, last: int) -> Value:
    return call.emit("Div", call.emit("Sub", high, low), call.const(last - first, np.float32))


@converter("Dequantize")
def dequantised(call: Call) -> Value:
    """Operands: integers, and the range that they stand for."""
    number, (_, first, last) = call.cast(call.operand(0), np.float32), _integers(call, "T")
    low, high = (call.cast(call.operand(i), np.float32) for i in (1, 2))
    mode, axis = str(call.attr("mode", "MIN_COMBINED")), int(call.attr("axis", -1))
    if mode not in _MODES:
        call.fail(f"mode '{mode}' is not known; expected {', '.join(_MODES)}")
    if axis >= 0:
        low, high = (_along(call, v, axis, call.rank(number)) for v in (low, high))
    if mode == "SCALED":
        first += int(bool(call.attr("narrow_range", False)))
        step = _step(call, low, high, first if first < 0 else 0, last)
        value = call.emit("Mul", number, step)
    else:
        step = _width(call, low, high, first, last)
        if mode == "MIN_FIRST":  # the low end is moved to a step, so that zero is exact
            low = call.emit("Mul", call.emit("Round", call.emit("Div", low, step)), step)
        start = call.emit("Sub", number, call.const(first, np.float32))
        value = call.emit("Add", call.emit("Mul", start, step), low)
    return call.cast(value, call.dtype_attr("dtype", np.float32))
