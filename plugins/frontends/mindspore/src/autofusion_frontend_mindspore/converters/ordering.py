"""Running extremes, and elements by their rank."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call, elements
from autofusion_frontend_mindspore.converters.detection import extent
from autofusion_frontend_mindspore.registry import converter


def is_nan(call: Call, value: Value) -> Value | None:
    """Which elements are NaN; None of a type that has none."""
    kind = call.dtype(value).kind
    return None if kind in "iub" else call.emit("IsNaN", value)


@converter("Cummax", "Cummin", "CumminExt")
def cumulative_extreme(call: Call) -> tuple[Value, Value]:
    """(extreme so far along an axis, its place: of equal ones the last); a NaN stays the extreme.

    By doubling: after a step of s each element knows the extreme of 2 s elements before and at it.
    """
    value, axis = call.tensor(0), call.int_arguments(1, "dim" if call.op.endswith("Ext") else "axis", 0)[0]
    axis = call.axis(axis, value)
    size = call.static_dim(value, axis)
    shape = [1] * call.rank(value)
    shape[axis] = size
    place = call.emit("Expand", call.const(np.arange(size).reshape(shape), I64), call.emit("Shape", value))
    at, step = call.ints([axis]), 1
    while step < size:
        bounds = [call.ints([n]) for n in (0, step, size - step, size)]
        head, head_place = (call.emit("Slice", v, bounds[0], bounds[1], at) for v in (value, place))
        here, here_place = (call.emit("Slice", v, bounds[1], bounds[3], at) for v in (value, place))
        before, before_place = (call.emit("Slice", v, bounds[0], bounds[2], at) for v in (value, place))
        stays = call.emit("Greater" if call.op == "Cummax" else "Less", before, here)
        was, now = is_nan(call, before), is_nan(call, here)
        if was is not None and now is not None:
            stays = call.emit("And", call.emit("Or", stays, was), call.emit("Not", now))
        value = call.emit("Concat", head, call.emit("Where", stays, before, here), axis=axis)
        place = call.emit("Concat", head_place, call.emit("Where", stays, before_place, here_place), axis=axis)
        step *= 2
    return value, call.cast(place, call.result_dtype(1))


def _by_rank(
    call: Call, value: Value, axis: int, rank: Value, keep: bool, skip_nan: bool = False
) -> tuple[Value, Value]:
    """(element, its place) of a rank (a vector of one, or one for each line) in ascending order along an axis.

    A line with a NaN gives NaN and the place of the first one, unless NaN is skipped (``rank`` does not count them).
    """
    nan = is_nan(call, value)
    sortable = value if nan is None else call.emit("Where", nan, call.like(np.inf, value), value)
    attrs = {"axis": axis, "largest": 0, "sorted": 1}
    ordered, places = call.node("TopK", [sortable, extent(call, value, axis)], attrs, outputs=2).outputs
    at = call.ints([axis])
    if rank.shape == (1,):
        found, place = (call.emit("Gather", v, rank, axis=axis) for v in (ordered, places))
    else:
        found, place = (call.emit("GatherElements", v, rank, axis=axis) for v in (ordered, places))
    if nan is not None:
        some = call.emit("ReduceMax", call.cast(nan, I64), at)
        if skip_nan:  # only where nothing else is there
            some = call.emit("ReduceMin", call.cast(nan, I64), at)
        some = call.cast(some, BOOL)
        found = call.emit("Where", some, call.like(np.nan, value), found)
        place = call.emit("Where", some, call.emit("ArgMax", call.cast(nan, I64), axis=axis), place)
    if not keep:
        found, place = (call.emit("Squeeze", v, at) for v in (found, place))
    return found, place


def _middle(call: Call, value: Value, axis: int, skip_nan: bool) -> Value:
    """The rank of the lower median."""
    nan = is_nan(call, value)
    if skip_nan and nan is not None:
        count = call.emit("ReduceSum", call.cast(call.emit("Not", nan), I64), call.ints([axis]))
        last = call.emit("Max", call.emit("Sub", count, call.const(1, I64)), call.const(0, I64))
        return call.emit("Div", last, call.const(2, I64))
    size = extent(call, value, axis)
    if size.const is not None:
        return call.ints([(int(size.const[0]) - 1) // 2])
    return call.emit("Div", call.emit("Sub", size, call.const(1, I64)), call.const(2, I64))


def _flat(call: Call, value: Value) -> Value:
    return call.emit("Reshape", value, call.ints([-1]))


@converter("MedianExt")
def median_of_all(call: Call) -> Value:
    """The lower median of all elements."""
    value = _flat(call, call.tensor(0))
    return _by_rank(call, value, 0, _middle(call, value, 0, False), False)[0]


@converter("MedianDim")
def median_along(call: Call) -> tuple[Value, Value]:
    """(x, axis, keep) -> (lower median, its place)."""
    value = call.tensor(0)
    axis = call.axis(int(call.argument(1, "dim", -1)), value)
    keep = bool(call.argument(2, "keepdim", False))
    found, place = _by_rank(call, value, axis, _middle(call, value, axis, False), keep)
    return found, call.cast(place, call.result_dtype(1))


@converter("Median")
def median(call: Call) -> tuple[Value, Value]:
    """(lower median, its place), of all elements or along an axis; NaN may be ignored. Arguments are attributes."""
    value, skip_nan = call.tensor(0), bool(call.argument(9, "ignore_nan", False))
    if call.argument(9, "global_median", False):
        value = _flat(call, value)
        found, place = _by_rank(call, value, 0, _middle(call, value, 0, skip_nan), False, skip_nan)
    else:
        axis = call.axis(int(call.argument(9, "axis", 0)), value)
        keep = bool(call.argument(9, "keep_dims", False))
        found, place = _by_rank(call, value, axis, _middle(call, value, axis, skip_nan), keep, skip_nan)
    result: tuple[Value, Value] = elements(call, found, call.cast(place, call.result_dtype(1)))
    return result


@converter("Kthvalue")
def kth_value(call: Call) -> tuple[Value, Value]:
    """(x, k from 1, axis, keep) -> (the k-th smallest, its place)."""
    value = call.tensor(0)
    axis = call.axis(int(call.argument(2, "dim", -1)), value)
    rank = call.ints([int(call.argument(1, "k")) - 1])
    found, place = _by_rank(call, value, axis, rank, bool(call.argument(3, "keepdim", False)))
    return found, call.cast(place, call.result_dtype(1))
