"""Tensors made from sizes and numbers; with those known they become constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import F32, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter


def filled(call: Call, sizes: Any, number: Any, dtype: np.dtype | None) -> Value:
    """A tensor of one number."""
    dtype = dtype or call.result_dtype() or F32
    value = call.emit("Reshape", call.cast(call.as_tensor(number, dtype), dtype), call.ints([]))
    if isinstance(sizes, tuple) and all(isinstance(s, int) for s in sizes) and value.const is not None:
        return call.const(np.full(sizes, value.const), dtype)
    return call.emit("Expand", value, call.sizes(sizes))


def _stated(call: Call, index: int) -> np.dtype | None:
    return call.result_dtype() or (call.type_id(call.argument(index, "dtype")) if call.has(index) else None)


@converter("Ones", "Zeros", "NewOnes", "NewZeros")
def ones(call: Call) -> Value:
    """(sizes, element type), or (x, sizes, element type)."""
    first = 1 if call.op.startswith("New") else 0
    return filled(call, call.args[first], 1 if "Ones" in call.op else 0, _stated(call, first + 1))


@converter("OnesLike", "OnesLikeExt", "ZerosLike", "ZerosLikeExt")
def ones_like(call: Call) -> Value:
    """In the shape of the operand."""
    value = call.tensor(0)
    dtype = call.result_dtype() or call.dtype(value)
    number = call.const(1 if "Ones" in call.op else 0, dtype)
    return call.emit("Expand", number, call.emit("Shape", value))


@converter("FillV2")
def fill(call: Call) -> Value:
    """(sizes, number)."""
    sizes, number = call.args[-2:]
    return filled(call, sizes, number, call.result_dtype())


@converter("FillScalar", "FillTensor", "NewFull")
def fill_scalar(call: Call) -> Value:
    """(sizes, number, element type), or (x, sizes, number, element type)."""
    first = 1 if call.op == "NewFull" else 0
    return filled(call, call.args[first], call.args[first + 1], _stated(call, first + 2))


@converter("FullLike")
def full_like(call: Call) -> Value:
    """One number in the shape of the operand."""
    value = call.tensor(0)
    dtype = call.result_dtype() or call.dtype(value)
    return call.emit("Expand", call.cast(call.tensor(1, dtype), dtype), call.emit("Shape", value))


@converter("Eye")
def eye(call: Call) -> Value:
    """(rows, columns, element type)."""
    rows, columns = int(call.argument(0, "n")), call.argument(1, "m", None)
    return call.const(np.eye(rows, None if columns is None else int(columns)), _stated(call, 2) or F32)


@converter("Range", "Arange")
def range_(call: Call) -> Value:
    """(start, end, step)."""
    dtype = call.result_dtype() or I64
    bounds = [call.emit("Reshape", call.cast(call.tensor(i, dtype), dtype), call.ints([])) for i in range(3)]
    return call.emit("Range", *bounds)


@converter("LinSpace", "LinSpaceExt")
def lin_space(call: Call) -> Value:
    """(start, stop, number of points)."""
    start, stop, count = (call.argument(i, n) for i, n in enumerate(("start", "stop", "num")))
    return call.const(np.linspace(start, stop, int(count)), call.result_dtype() or F32)


@converter("Tril", "TrilExt", "Triu")
def triangle(call: Call) -> Value:
    """One triangle of each matrix kept."""
    offset = call.const(int(call.argument(1, "diagonal", 0)), I64)
    return call.emit("Trilu", call.tensor(0), offset, upper=int(call.op == "Triu"))


@converter("Diag", "DiagExt")
def diag(call: Call) -> Value:
    """A vector as the diagonal of a matrix."""
    value = call.tensor(0)
    if call.rank(value) != 1 or (call.op == "DiagExt" and call.argument(1, "diagonal", 0)):
        call.fail("only a vector on the main diagonal is supported")
    size = call.static_dim(value, 0)
    return call.emit("Mul", call.emit("Unsqueeze", value, call.ints([1])), call.const(np.eye(size), value.dtype))
