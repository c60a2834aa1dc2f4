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
