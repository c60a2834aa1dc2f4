"""Rows grouped by a number: reductions of each group, taking the groups apart and putting them together."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter

_KINDS = {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min"}


def _start(dtype: np.dtype, kind: str) -> float | int:
    """What a reduction begins with, and an empty group keeps."""
    if kind in ("Sum", "Prod"):
        return int(kind == "Prod")
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return limits.min if kind == "Max" else limits.max  # type: ignore[return-value]


def rows_of(call: Call, value: Value, groups: Value) -> tuple[Value, Value]:
    """The rows of ``value`` and their groups, one axis each, where ``groups`` has the first axes of ``value``."""
    inner, rank = call.rank(groups), call.rank(value)
    flat = call.emit("Reshape", call.as_ints(groups), call.ints([-1]))
    if inner == 1:
        return value, flat
    count = call.emit("Shape", flat)
    shape = call.emit("Concat", count, call.emit("Shape", value, start=inner), axis=0) if rank > inner else count
    return call.reshape(value, shape), flat


def _reduced(call: Call, rows: Value, groups: Value, count: Value, kind: str) -> Value:
    """One row for each of ``count`` groups; what has a negative group counts nowhere."""
    one, rank = call.ints([1]), call.rank(rows)
    shape = call.emit("Add", count, one)
    if rank > 1:
        shape = call.emit("Concat", shape, call.emit("Shape", rows, start=1), axis=0)
    dtype = call.dtype(rows)
    whole = call.emit("ConstantOfShape", shape, value=np.full(1, _start(dtype, kind), dtype))
    place = call.emit("Where", call.emit("Less", groups, call.ints(0)), count, groups)
    made = call.emit("ScatterND", whole, call.unsqueeze(place, 1), rows, reduction=_KINDS[kind])
    return call.emit("Slice", made, call.ints([0]), count, call.ints([0]))


def _sizes(call: Call, groups: Value, count: Value, like: Value) -> Value:
    """How many rows each group has, of the type of ``like`` and with its axes."""
    ones = call.emit("Expand", call.ints([1]), call.emit("Shape", groups))
    sizes = call.cast(_reduced(call, ones, groups, count, "Sum"), call.dtype(like))
    return call.reshape(sizes, [-1, *[1] * (call.rank(like) - 1)])


def _averaged(call: Call, rows: Value, groups: Value, count: Value, kind: str) -> Value:
    """Sums, divided by the number of rows or its root; nothing for an empty group."""
    sums = _reduced(call, rows, groups, count, "Sum")
    sizes = call.emit("Max", _sizes(call, groups, count, rows), call.like(1, rows))
    return call.emit("Div", sums, call.emit("Sqrt", sizes) if kind == "SqrtN" else sizes)


def _highest(call: Call, groups: Value) -> Value:
    """The number of groups that sorted ``groups`` tell."""
    some = call.emit("Pad", groups, call.ints([0, 1]), call.ints(-1))
    return call.emit("Add", call.emit("ReduceMax", some, keepdims=1), call.ints([1]))


@converter(*(f"UnsortedSegment{kind}" for kind in _KINDS))
def unsorted_segments(call: Call) -> Value:
    """Operands: rows, their groups, the number of groups."""
    rows, groups = rows_of(call, call.operand(0), call.operand(1))
    return _reduced(call, rows, groups, call.vector(call.operand(2)), call.op.removeprefix("UnsortedSegment"))


@converter(*(f"Segment{kind}" for kind in _KINDS), "SegmentMean")
def segments(call: Call) -> Value:
    """Operands: rows, their groups in order. An empty group is 0, or 1 if it is a product."""
    rows, groups = call.operand(0), call.as_ints(call.operand(1))
    count, kind = _highest(call, groups), call.op.removeprefix("Segment")
    if kind == "Mean":
        return _averaged(call, rows, groups, count, kind)
    made = _reduced(call, rows, groups, count, kind)
    if kind in ("Sum", "Prod"):
        return made
    zero = call.like(0, rows)
    return call.emit("Where", call.emit("Equal", _sizes(call, groups, count, rows), zero), zero, made)


_SPARSE = ("Sum", "Mean", "SqrtN")


@converter(*(f"SparseSegment{kind}{more}" for kind in _SPARSE for more in ("", "WithNumSegments")))
def sparse_segments(call: Call) -> Value:
    """Operands: rows, which of them, their groups, and the number of groups if it is given."""
    rows = call.emit("Gather", call.operand(0), call.operand(1))
    groups, given = call.as_ints(call.operand(2)), call.op.endswith("WithNumSegments")
    count = call.vector(call.operand(3)) if given else _highest(call, groups)
    kind = call.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    if kind == "Sum":
        return _reduced(call, rows, groups, count, kind)
    return _averaged(call, rows, groups, count, kind)


@converter("DynamicPartition")
def partition(call: Call) -> list[Value]:
    """Operands: rows, their groups. One result for each group."""
    rows, groups = rows_of(call, call.operand(0), call.operand(1))
    count = int(call.attr("num_partitions", 1))
    chosen = (call.emit("Equal", groups, call.ints(i)) for i in range(count))
    return [call.emit("Compress", rows, which, axis=0) for which in chosen]


@converter("DynamicStitch", "ParallelDynamicStitch")
def stitch(call: Call) -> Value:
    """Operands: N tensors of places, N of rows. The last of equal places counts; a place that none has is 0."""
    count = int(call.attr("N", len(call.inputs) // 2))
    pairs = [rows_of(call, v, p) for p, v in zip(call.inputs[:count], call.inputs[count:], strict=True)]
    rows, places = (v[0] if count == 1 else call.emit("Concat", *v, axis=0) for v in zip(*pairs, strict=True))
    if places.const is not None and sorted(set(places.const.tolist())) == list(
        range(int(places.const.max(initial=-1)) + 1)
    ):
        last = {int(place): at for at, place in enumerate(places.const)}
        return call.emit("Gather", rows, call.ints([last[i] for i in range(len(last))]), axis=0)
    size = _highest(call, places)
    if call.rank(rows) > 1:
        size = call.emit("Concat", size, call.emit("Shape", rows, start=1), axis=0)
    zeros = call.emit("ConstantOfShape", size, value=np.zeros(1, call.dtype(rows)))
    return call.emit("ScatterND", zeros, call.unsqueeze(places, 1), rows)
