"""Places of extremes, order, and what is not zero."""

from __future__ import annotations

from typing import Any

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter


@converter("Argmax", "Argmin", "ArgMaxExt", "ArgMinExt")
def argmax(call: Call) -> Value:
    """(x, axis, element type of the places), or (x, axis, keep); without an axis, the place in the whole tensor."""
    op = "ArgMin" if "in" in call.op[3:6] else "ArgMax"
    value, axis = call.tensor(0), call.argument(1, "axis", -1)
    keep = call.op.endswith("Ext") and bool(call.argument(2, "keepdim", False))
    if axis is None:
        value, axis, keep = call.emit("Reshape", value, call.ints([-1])), 0, False
    result = call.emit(op, value, axis=int(axis), keepdims=int(keep))
    return call.cast(result, call.result_dtype())


def _extreme(call: Call, op: str) -> tuple[Value, Value]:
    """(place, value) along an axis."""
    value = call.tensor(0)
    axis, keep = int(call.argument(1, "axis", 0)), int(bool(call.argument(2, "keep_dims", False)))
    if value.shape == ():
        return call.const(0, call.result_dtype(0) or I64), value
    place = call.emit(f"Arg{op}", value, axis=axis, keepdims=keep)
    return place, call.emit(f"Reduce{op}", value, call.ints([axis]), keepdims=keep)


@converter("ArgMaxWithValue")
def argmax_with_value(call: Call) -> tuple[Value, Value]:
    """(place, maximum)."""
    return _extreme(call, "Max")


@converter("ArgMinWithValue")
def argmin_with_value(call: Call) -> tuple[Value, Value]:
    """(place, minimum)."""
    return _extreme(call, "Min")


@converter("MaxDim", "MinDim")
def max_dim(call: Call) -> tuple[Value, Value]:
    """(extreme, place)."""
    place, value = _extreme(call, call.op[:3])
    return value, place


@converter("TopK")
def top_k(call: Call) -> tuple[Value, Value]:
    """(values, places) of the k greatest along the last axis."""
    return _top(call, call.tensor(0), call.argument(1, "k"), -1, True)


@converter("TopkExt")
def top_k_ext(call: Call) -> tuple[Value, Value]:
    """(x, k, axis, greatest, sorted)."""
    axis, greatest = int(call.argument(2, "dim", -1)), bool(call.argument(3, "largest", True))
    return _top(call, call.tensor(0), call.argument(1, "k"), axis, greatest)


def _top(call: Call, value: Value, count: Any, axis: int, greatest: bool) -> tuple[Value, Value]:
    attrs = {"axis": axis, "largest": int(greatest), "sorted": 1}
    values, places = call.node("TopK", [value, call.ints([int(count)])], attrs, outputs=2).outputs
    return values, call.cast(places, call.result_dtype(1))


@converter("Sort", "SortExt")
def sort(call: Call) -> tuple[Value, Value]:
    """(values, places) of all elements along an axis."""
    value = call.tensor(0)
    axis = int(call.argument(1, "axis", call.attrs.get("dim", -1)))
    descending = bool(call.argument(2, "descending", False))
    return _top(call, value, call.static_dim(value, axis), axis, descending)


@converter("ArgSort")
def argsort(call: Call) -> Value:
    """Places of all elements along an axis, in order of their values."""
    value, axis = call.tensor(0), int(call.argument(1, "dim", -1))
    attrs = {"axis": axis, "largest": int(bool(call.argument(2, "descending", False))), "sorted": 1}
    count = call.ints([call.static_dim(value, axis)])
    return call.node("TopK", [value, count], attrs, outputs=2).outputs[1]


@converter("NonZero")
def non_zero(call: Call) -> Value:
    """Places of what is not zero, one a row."""
    return call.emit("Transpose", call.emit("NonZero", call.tensor(0)), perm=[1, 0])


@converter("MaskedSelect")
def masked_select(call: Call) -> Value:
    """The elements where the mask holds, as a vector."""
    value, mask = call.tensor(0), call.cast(call.tensor(1), BOOL)
    if value.shape != mask.shape:
        ones = call.emit("Shape", call.emit("Where", mask, value, value))
        value, mask = call.emit("Expand", value, ones), call.emit("Expand", mask, ones)
    flat = call.emit("Reshape", mask, call.ints([-1]))
    return call.emit("Compress", value, flat)
