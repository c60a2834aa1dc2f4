"""How often values occur, which different ones there are, and where others would stand among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import BOOL, F32, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call, elements
from autofusion_frontend_mindspore.converters.arithmetic import operands
from autofusion_frontend_mindspore.converters.detection import extent
from autofusion_frontend_mindspore.registry import converter

_WHOLE = np.iinfo(np.int64).max


def flat(call: Call, value: Value) -> Value:
    """All elements as a vector."""
    return value if value.shape is not None and len(value.shape) == 1 else call.emit("Reshape", value, call.ints([-1]))


@converter("SearchSorted")
def search_sorted(call: Call) -> Value:
    """(sorted, values, order or None, element type, right): how many of the sorted are below each value (or not above).

    The last axis is sorted; with an order, which is a permutation along it, it is sorted by that.
    """
    ordered, values = operands(call)
    if call.has(2):
        ordered = call.emit("GatherElements", ordered, call.cast(call.tensor(2), I64), axis=-1)
    right = bool(call.argument(4, "right", call.attrs.get("right", False)))
    rows = call.emit("Unsqueeze", ordered, call.ints([call.rank(ordered) - 1]))
    column = call.emit("Unsqueeze", values, call.ints([call.rank(values)]))
    below = call.emit("LessOrEqual" if right else "Less", rows, column)
    count = call.emit("ReduceSum", call.cast(below, I64), call.ints([-1]), keepdims=0)
    return call.cast(count, call.result_dtype() or I64)


def _tallied(call: Call, places: Value, weights: Value | None, size: Value, inside: Value, dtype: np.dtype) -> Value:
    """Weights (or ones) added up by their place below ``size`` (a vector of one); those not ``inside`` do not count."""
    bound = call.emit("Reshape", size, call.ints([]))
    places = call.emit("Where", inside, places, bound)
    updates = call.emit("Expand", call.const(1, dtype), call.emit("Shape", places))
    if weights is not None:
        updates = call.cast(weights, dtype)
    zeros = call.emit("Expand", call.const(0, dtype), call.emit("Add", size, call.const(1, I64)))
    sums = call.emit("ScatterElements", zeros, places, updates, axis=0, reduction="add")
    return call.emit("Slice", sums, call.ints([0]), call.ints([-1]), call.ints([0]))


@converter("Bincount")
def bincount(call: Call) -> Value:
    """(numbers, number of bins, weights or an empty vector); what is not below the number of bins does not count."""
    numbers, weights = call.cast(flat(call, call.tensor(0)), I64), call.tensor(2)
    size = call.emit("Reshape", call.cast(call.tensor(1), I64), call.ints([1]))
    inside = call.emit(
        "And", call.emit("GreaterOrEqual", numbers, call.const(0, I64)), call.emit("Less", numbers, size)
    )
    weighted = None if weights.shape == (0,) else flat(call, weights)
    return _tallied(call, numbers, weighted, size, inside, call.result_dtype() or call.dtype(weights))


@converter("BincountExt")
def bincount_ext(call: Call) -> Value:
    """(numbers, weights or None, least number of bins): as many bins as the greatest number needs."""
    numbers = call.cast(call.tensor(0), I64)
    least = call.ints([int(call.argument(2, "minlength", 0))])
    ones = call.emit("Concat", least, call.emit("Add", numbers, call.const(1, I64)), axis=0)
    size = call.emit("ReduceMax", ones, call.ints([0]), keepdims=1)
    inside = call.emit("GreaterOrEqual", numbers, call.const(0, I64))
    weights = call.optional(1)
    dtype = call.result_dtype() or (I64 if weights is None else call.dtype(weights))
    return _tallied(call, numbers, weights, size, inside, dtype)


@converter("HistcExt", "Histc")
def histc(call: Call) -> Value:
    """(x, bins, least, most): bins of equal width from least to most, both included; both 0: the range of the data."""
    value, bins = flat(call, call.tensor(0)), int(call.argument(1, "bins", 100))
    least, most = (float(call.argument(i, n, 0)) for i, n in ((2, "min"), (3, "max")))
    dtype = call.result_dtype() or call.dtype(value)
    wide = value if call.dtype(value) == np.dtype(np.float64) else call.cast(value, F32)
    low, high = call.like(least, wide), call.like(most, wide)
    if least > most:
        call.fail(f"its range begins at {least} and ends before, at {most}")
    if least == most:
        if least == 0:
            low, high = (call.emit(op, wide, None, keepdims=0) for op in ("ReduceMin", "ReduceMax"))
        same, one = call.emit("Equal", low, high), call.like(1, wide)
        low, high = (
            call.emit("Where", same, call.emit("Sub", low, one), low),
            call.emit("Where", same, call.emit("Add", high, one), high),
        )
    inside = call.emit("And", call.emit("GreaterOrEqual", wide, low), call.emit("LessOrEqual", wide, high))
    shares = call.emit("Div", call.emit("Sub", wide, low), call.emit("Sub", high, low))
    shares = call.emit("Where", inside, shares, call.like(0, wide))
    places = call.cast(call.emit("Floor", call.emit("Mul", shares, call.like(bins, wide))), I64)
    places = call.emit("Min", places, call.const(bins - 1, I64))
    return call.cast(_tallied(call, places, None, call.ints([bins]), inside, I64), dtype)


def _unique(call: Call, value: Value, ordered: bool, axis: int | None = None) -> tuple[Value, Value, Value]:
    """(different values, the number of each element's value, how often each occurs)."""
    attrs = {"sorted": int(ordered), **({} if axis is None else {"axis": axis})}
    values, _, inverse, counts = call.node("Unique", [value], attrs, outputs=4).outputs
    return values, inverse, counts


@converter("Unique")
def unique(call: Call) -> tuple[Value, Value]:
    """(different values in the order in which they first occur, the number of each element's value)."""
    values, inverse, _ = _unique(call, call.tensor(0), False)
    return values, call.cast(inverse, call.result_dtype(1))


@converter("Unique2", "InnerUnique")
def unique_sorted(call: Call) -> Any:
    """(x, ...) -> (different values in ascending order, the number of each element's value, how often each occurs).

    MindSpore orders them whatever is asked for, as numpy and torch do.
    """
    value = call.tensor(0)
    values, inverse, counts = _unique(call, value, True)
    inverse = call.emit("Reshape", inverse, call.emit("Shape", value))
    return elements(call, values, call.cast(inverse, call.result_dtype(1)), call.cast(counts, call.result_dtype(2)))


@converter("UniqueDim")
def unique_along(call: Call) -> Any:
    """(x, sorted, with numbers, axis): different slices along an axis."""
    value = call.tensor(0)
    values, inverse, counts = _unique(call, value, True, call.axis(int(call.argument(3, "dim")), value))
    return elements(call, values, call.cast(inverse, call.result_dtype(1)), call.cast(counts, call.result_dtype(2)))


@converter("UniqueWithPad")
def unique_with_pad(call: Call) -> tuple[Value, Value]:
    """(x, filler): as Unique, with the values filled up to the length of x."""
    value = call.tensor(0)
    values, inverse, _ = _unique(call, value, False)
    rest = call.emit("Sub", extent(call, value, 0), call.emit("Shape", values))
    filler = call.emit("Reshape", call.cast(call.tensor(1, value.dtype), value.dtype), call.ints([]))
    whole = call.emit("Concat", values, call.emit("Expand", filler, rest), axis=0)
    return whole, call.cast(inverse, call.result_dtype(1))


@converter("UniqueConsecutive")
def unique_consecutive(call: Call) -> Any:
    """(values that differ from the one before, the number of each element's, how often each occurs in a row)."""
    if call.argument(3, "dim", call.attrs.get("axis")) is not None:
        call.fail("runs of equal slices along an axis are not supported, only of elements")
    source = call.tensor(0)
    value = flat(call, source)
    at = call.ints([0])
    before = call.emit("Slice", value, at, call.ints([-1]), at)
    after = call.emit("Slice", value, call.ints([1]), call.ints([_WHOLE]), at)
    changed = call.emit("Not", call.emit("Equal", before, after))
    some = call.emit("Less", call.ints([0]), extent(call, value, 0))  # no element, no first one
    first = call.emit("Slice", some, at, call.emit("Min", extent(call, value, 0), call.ints([1])), at)
    begins = call.emit("Concat", first, changed, axis=0)
    numbers = call.emit("Sub", call.emit("CumSum", call.cast(begins, I64), call.const(0, I64)), call.const(1, I64))
    values = call.emit("Compress", value, call.cast(begins, BOOL), axis=0)
    starts = call.emit("Reshape", call.emit("NonZero", begins), call.ints([-1]))
    ends = call.emit("Concat", starts, extent(call, value, 0), axis=0)
    counts = call.emit(
        "Sub",
        call.emit("Slice", ends, call.ints([1]), call.ints([_WHOLE]), at),
        call.emit("Slice", ends, at, call.ints([-1]), at),
    )
    inverse = call.emit("Reshape", numbers, call.emit("Shape", source))
    return elements(call, values, call.cast(inverse, call.result_dtype(1)), call.cast(counts, call.result_dtype(2)))


@converter("NonZeroExt")
def non_zero_along(call: Call) -> tuple[Value, ...]:
    """Places of what is not zero, a vector for each axis."""
    value = call.tensor(0)
    found = call.emit("NonZero", value)
    return tuple(call.emit("Gather", found, call.const(i, I64), axis=0) for i in range(call.rank(value)))
