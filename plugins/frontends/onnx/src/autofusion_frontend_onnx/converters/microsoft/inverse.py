"""Inverse of matrices: Gauss-Jordan elimination with partial pivoting, one Loop iteration for each row."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion.ir.types import TensorType
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.control import inside, with_body
from autofusion_frontend_onnx.registry import converter

_F64 = np.dtype(np.float64)


@converter("Inverse", domain="com.microsoft")
def inverse(call: Call) -> list[Value]:
    """[..., n, n], in double precision; a matrix that has no inverse gives infinities or NaN."""
    x = call.operand(0)
    wide = call.emit("Cast", x, to=_F64)
    size = call.dim(x, -1)
    row = call.emit("Range", call.ints(0), call.emit("Squeeze", size), call.ints(1))
    unit = call.emit("Equal", call.emit("Unsqueeze", row, call.ints([1])), row)
    unit = call.emit("Expand", call.emit("Cast", unit, to=_F64), call.emit("Shape", wide))
    step = inside(call, "eliminate")
    at = step.graph.add_input("row", TensorType(I64, ()))
    going = step.graph.add_input("going", TensorType(BOOL, ()))
    state = step.graph.add_input("state", TensorType(_F64, None))
    step.graph.add_output(step.emit("Identity", going))
    step.graph.add_output(_eliminated(step, state, at, step.scope.capture(row)))
    state_in = call.emit("Concat", wide, unit, axis=-1)
    operands = [call.emit("Squeeze", size), call.const(True, BOOL, "true"), state_in]
    done = call.node("Loop", *with_body(call, step, operands)).output
    result = call.emit("Slice", done, size, call.emit("Mul", size, call.ints([2])), call.ints([-1]))
    return [call.emit("Cast", result, to=call.dtype(x))]


def _eliminated(step: Call, state: Value, at: Value, row: Value) -> Value:
    """``state`` [..., n, 2 n] with its best remaining row moved to ``at``, scaled, and taken off every other row."""
    column = step.emit("Gather", state, at, axis=-1)
    left = step.emit("GreaterOrEqual", row, at)
    size = step.emit("Where", left, step.emit("Abs", column), step.const(-1, _F64, "done"))
    best = step.emit("ArgMax", size, axis=-1, keepdims=1)
    is_best = step.emit("Unsqueeze", step.emit("Equal", row, best), step.ints([-1]))
    is_here = step.emit("Unsqueeze", step.emit("Equal", row, at), step.ints([-1]))
    here = step.emit("Unsqueeze", step.emit("Gather", state, at, axis=-2), step.ints([-2]))
    chosen = step.emit("Where", is_best, state, step.const(0, _F64, "zero"))
    pivot_row = step.emit("ReduceSum", chosen, step.ints([-2]), keepdims=1)
    pivot = step.emit("Unsqueeze", step.emit("Gather", pivot_row, at, axis=-1), step.ints([-1]))
    scaled = step.emit("Div", pivot_row, pivot)
    moved = step.emit("Where", is_best, here, state)
    factors = step.emit("Unsqueeze", step.emit("Gather", moved, at, axis=-1), step.ints([-1]))
    return step.emit("Where", is_here, scaled, step.emit("Sub", moved, step.emit("Mul", factors, scaled)))
