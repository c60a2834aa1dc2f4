"""Counting: how often numbers occur, which values are new, and which are the greatest."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def _counts(call: Call, numbers: Value, size: Value, amounts: Value) -> Value:
    """``amounts`` added up for each number along the last axis, [..., size]; numbers from ``size`` on are left out."""
    rank = call.rank(numbers)
    numbers = call.emit("Min", call.as_ints(numbers), size)
    columns = call.emit("Add", size, call.ints([1]))
    shape = call.emit("Concat", call.emit("Shape", numbers, end=-1), columns, axis=0) if rank > 1 else columns
    start = call.emit("ConstantOfShape", shape, value=np.zeros(1, call.dtype(amounts)))
    made = call.emit("ScatterElements", start, numbers, amounts, axis=-1, reduction="add")
    return call.emit("Slice", made, call.ints([0]), size, call.ints([rank - 1]))


def _weights(call: Call, index: int) -> Value | None:
    """The weights that operand ``index`` holds; None if it is empty, which stands for ones."""
    weights = call.operand(index)
    return None if weights.shape is not None and 0 in weights.shape else weights


def _ones(call: Call, like: Value, dtype: np.dtype) -> Value:
    return call.emit("ConstantOfShape", call.shape(like), value=np.ones(1, dtype))


@converter("Bincount")
def bincount(call: Call) -> Value:
    """Operands: numbers of any shape, size, weights of the same shape (or none)."""
    numbers, weights = call.reshape(call.operand(0), [-1]), _weights(call, 2)
    if weights is None:
        amounts = _ones(call, numbers, call.dtype(call.operand(2)))
    else:
        amounts = call.reshape(weights, [-1])
    return _counts(call, numbers, call.vector(call.operand(1)), amounts)


@converter("DenseBincount")
def dense_bincount(call: Call) -> Value:
    """Operands: numbers [n] or [rows, n], size, weights of the same shape (or none). A binary one tells what occurs."""
    numbers, weights = call.operand(0), _weights(call, 2)
    binary, dtype = bool(call.attr("binary_output", False)), call.dtype(call.operand(2))
    if weights is None or binary:
        weights = _ones(call, numbers, dtype)
    made = _counts(call, numbers, call.vector(call.operand(1)), weights)
    return call.emit("Min", made, call.like(1, made)) if binary else made


@converter("HistogramFixedWidth")
def histogram(call: Call) -> Value:
    """Operands: values, [low, high], number of intervals of one width. The outer two also take what lies outside."""
    values, limits, size = call.reshape(call.operand(0), [-1]), call.operand(1), call.vector(call.operand(2))
    low, high = call.slice(limits, 0, 0, 1), call.slice(limits, 0, 1, 2)
    width = call.emit("Div", call.emit("Sub", high, low), call.cast(size, call.dtype(values)))
    place = call.emit("Div", call.emit("Sub", values, low), width)
    last = call.cast(call.emit("Sub", size, call.ints([1])), call.dtype(values))
    place = call.emit("Max", call.emit("Min", place, last), call.like(0, place))
    return _counts(call, place, size, _ones(call, place, call.dtype_attr("dtype", np.int32)))


@converter("UniqueWithCounts", "UniqueWithCountsV2", outputs=("y", "idx", "count"))
def unique_with_counts(call: Call) -> list[Value]:
    """In the order of first appearance, and how often."""
    attrs = {"sorted": 0}
    if call.op == "UniqueWithCountsV2":
        axes = call.known_ints(1, "axis")
        attrs |= {"axis": axes[0]} if axes else {}
    node = call.node("Unique", [call.operand(0)], attrs, outputs=4)
    to = call.dtype_attr("out_idx", np.int32)
    return [node.outputs[0], call.cast(node.outputs[2], to), call.cast(node.outputs[3], to)]


@converter("ListDiff", outputs=("out", "idx"))
def difference(call: Call) -> list[Value]:
    """What operand 0 has and operand 1 has not, in order, and where."""
    x, y = call.operand(0), call.operand(1)
    same = call.emit("Equal", call.unsqueeze(x, 1), call.unsqueeze(y, 0))
    known = call.emit("ReduceSum", call.cast(same, np.int64), call.ints([1]), keepdims=0)
    places = call.squeeze(call.emit("NonZero", call.emit("Equal", known, call.ints(0))), 0)
    return [call.emit("Gather", x, places, axis=0), call.cast(places, call.dtype_attr("out_idx", np.int32))]


@converter("InTopK", "InTopKV2")
def in_top_k(call: Call) -> Value:
    """Operands: scores [rows, classes], one class a row, k: whether fewer than k classes have a greater score.

    Never where the class is out of range, or where its score or that of any class is not finite.
    """
    scores, classes = call.operand(0), call.as_ints(call.operand(1))
    k = call.as_ints(call.operand(2)) if call.op == "InTopKV2" else call.ints(int(call.attr("k", 1)))
    count = call.squeeze(call.dim(scores, 1), 0)
    inside = call.emit("And", call.emit("Less", classes, count), call.emit("GreaterOrEqual", classes, call.ints(0)))
    place = call.unsqueeze(call.emit("Where", inside, classes, call.ints(0)), 1)
    own = call.emit("GatherElements", scores, place, axis=1)
    greater = call.cast(call.emit("Greater", scores, own), np.int64)
    few = call.emit("Less", call.emit("ReduceSum", greater, call.ints([1]), keepdims=0), k)
    odd = call.cast(call.emit("Or", call.emit("IsInf", scores), call.emit("IsNaN", scores)), np.int64)
    finite = call.emit("Equal", call.emit("ReduceSum", odd, call.ints([1]), keepdims=0), call.ints(0))
    return call.emit("And", call.emit("And", inside, finite), few)


@converter("NthElement")
def nth_element(call: Call) -> Value:
    """The n-th smallest along the last axis, or the n-th greatest."""
    x, n = call.operand(0), call.vector(call.operand(1))
    attrs = {"axis": -1, "largest": int(bool(call.attr("reverse", False))), "sorted": 1}
    first = call.node("TopK", [x, call.emit("Add", n, call.ints([1]))], attrs, outputs=2).outputs[0]
    return call.emit("Gather", first, call.squeeze(n, 0), axis=-1)
