"""Gathering elements by their places, and scattering them to places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter


def places(call: Call, value: Value) -> Value:
    """Indices in an element type that ONNX has for them."""
    return value if value.dtype in (np.dtype(np.int32), np.dtype(np.int64)) else call.cast(value, I64)


@converter("Gather", "SparseGatherV2")
def gather(call: Call) -> Value:
    """(x, indices, axis, number of batch axes)."""
    value, index = call.tensor(0), places(call, call.tensor(1))
    axis = call.axis(int(call.argument(2, "axis", 0)), value)
    batch = int(call.argument(3, "batch_dims", 0))
    if batch < 0:
        batch += call.rank(index)
    if not batch:
        return call.emit("Gather", value, index, axis=axis)
    return _batched(call, value, index, axis, batch)


def _batched(call: Call, value: Value, index: Value, axis: int, batch: int) -> Value:
    """The axis is moved behind the batch axes, and each batch gathers for itself."""
    rank, index_rank = call.rank(value), call.rank(index)
    if axis != batch:
        others = [i for i in range(rank) if i != axis]
        value = call.emit("Transpose", value, perm=[*others[:batch], axis, *others[batch:]])
    column = call.emit("Unsqueeze", index, call.ints([index_rank]))
    result = call.emit("GatherND", value, column, batch_dims=batch)
    if axis == batch:
        return result
    # What lies between the batch and the axis stands behind the indices now: it goes back before them.
    new, between = index_rank - batch, axis - batch
    total = call.rank(result)
    perm = [
        *range(batch),
        *range(batch + new, batch + new + between),
        *range(batch, batch + new),
        *range(batch + new + between, total),
    ]
    return call.emit("Transpose", result, perm=perm)


@converter("GatherD")
def gather_d(call: Call) -> Value:
    """(x, axis, indices)."""
    axis = int(call.argument(1, "dim"))
    return call.emit("GatherElements", call.tensor(0), places(call, call.tensor(2)), axis=axis)


@converter("GatherNd", "GatherNdExt")
def gather_nd(call: Call) -> Value:
    """Indices of whole places."""
    return call.emit("GatherND", call.tensor(0), call.cast(call.tensor(1), I64))


@converter("IndexSelect")
def index_select(call: Call) -> Value:
    """(x, axis, indices)."""
    return call.emit("Gather", call.tensor(0), places(call, call.tensor(2)), axis=int(call.argument(1, "dim")))


@converter("Embedding", "EmbeddingLookup")
def embedding(call: Call) -> Value:
    """Rows of a table; operands are (indices, table), the other way round than Gather's."""
    if call.op == "EmbeddingLookup":
        return call.emit("Gather", call.tensor(0), places(call, call.tensor(1)), axis=0)
    if call.argument(3, "max_norm", None) is not None:
        call.fail("max_norm changes the table while it is read, which is not supported")
    return call.emit("Gather", call.tensor(1), places(call, call.tensor(0)), axis=0)


@converter("OneHot", "OneHotExt")
def one_hot(call: Call) -> Value:
    """(indices, depth, on, off, axis). An index below 0 is off everywhere; ONNX would count it from the end."""
    index, depth = call.cast(call.tensor(0), I64), call.cast(call.tensor(1), I64)
    dtype = call.result_dtype() or np.dtype(np.float32)
    on, off = (call.emit("Reshape", call.cast(call.tensor(i, dtype), dtype), call.ints([1])) for i in (2, 3))
    depth = call.emit("Reshape", depth, call.ints([]))
    negative = call.emit("Less", index, call.const(0, I64))
    index = call.emit("Where", negative, depth, index)
    values = call.emit("Concat", off, on, axis=0)
    return call.emit("OneHot", index, depth, values, axis=int(call.argument(4, "axis", -1)))


def _scatter_nd(reduction: str) -> Callable[[Call], Value]:
    def convert(call: Call) -> Value:
        value = call.tensor(0)
        updates = call.cast(call.tensor(2), value.dtype)
        return call.emit("ScatterND", value, call.cast(call.tensor(1), I64), updates, reduction=reduction)

    return convert


converter("TensorScatterUpdate")(_scatter_nd("none"))
converter("TensorScatterAdd")(_scatter_nd("add"))
converter("TensorScatterMul")(_scatter_nd("mul"))
converter("TensorScatterMax")(_scatter_nd("max"))
converter("TensorScatterMin")(_scatter_nd("min"))


@converter("ScatterNd")
def scatter_nd(call: Call) -> Value:
    """(indices, updates, shape): updates added up in zeros."""
    updates = call.tensor(1)
    zeros = call.emit("Expand", call.like(0, updates), call.sizes(call.args[2]))
    return call.emit("ScatterND", zeros, call.cast(call.tensor(0), I64), updates, reduction="add")


@converter("TensorScatterElements", "Scatter", "ScatterAddExt", "ScatterValue")
def scatter_elements(call: Call) -> Value:
    """(x, indices, updates, axis, reduction), or (x, axis, indices, updates, reduction)."""
    value = call.tensor(0)
    if call.op == "TensorScatterElements":
        index, updates, axis = call.tensor(1), call.tensor(2), int(call.argument(3, "axis", 0))
        how = call.argument(4, "reduce", call.attrs.get("reduction", "none"))
    else:
        axis, index, updates = int(call.argument(1, "dim")), call.tensor(2), call.tensor(3, value.dtype)
        how = "add" if call.op == "ScatterAddExt" else call.argument(4, "reduce", "none")
    how = {0: "none", 1: "add", 2: "mul"}.get(how, how) if isinstance(how, int) else str(how)
    updates = call.cast(updates, value.dtype)
    if updates.shape == ():
        updates = call.emit("Expand", updates, call.emit("Shape", index))
    return call.emit("ScatterElements", value, places(call, index), updates, axis=axis, reduction=how)


@converter("IndexAddExt", "IndexAdd")
def index_add(call: Call) -> Value:
    """Slices added to the places along an axis that the indices name."""
    value = call.tensor(0)
    if call.op == "IndexAdd":
        axis, index, source, alpha = int(call.attrs["axis"]), call.tensor(1), call.tensor(2), 1
    else:
        axis, index, source = int(call.argument(1, "dim")), call.tensor(2), call.tensor(3)
        alpha = call.argument(4, "alpha", 1)
    axis = call.axis(axis, value)
    if alpha != 1:
        source = call.emit("Mul", source, call.like(alpha, source))
    shape = [1] * call.rank(value)
    shape[axis] = -1
    index = call.emit(
        "Expand", call.emit("Reshape", call.cast(index, I64), call.ints(shape)), call.emit("Shape", source)
    )
    return call.emit("ScatterElements", value, index, call.cast(source, value.dtype), axis=axis, reduction="add")


@converter("ReverseSequence")
def reverse_sequence(call: Call) -> Value:
    """The first elements of every sequence reversed, as many as it is long; any two axes may be batch and sequence."""
    value, lengths = call.tensor(0), call.cast(call.tensor(1), I64)
    batch, time = (call.axis(int(call.attrs.get(n, d)), value) for n, d in (("batch_dim", 0), ("seq_dim", 1)))
    if {batch, time} == {0, 1}:
        return call.emit("ReverseSequence", value, lengths, batch_axis=batch, time_axis=time)
    perm = [batch, time, *(i for i in range(call.rank(value)) if i not in (batch, time))]
    moved = call.emit("Transpose", value, perm=perm)
    turned = call.emit("ReverseSequence", moved, lengths, batch_axis=0, time_axis=1)
    return call.emit("Transpose", turned, perm=[perm.index(i) for i in range(len(perm))])


@converter("TensorCopySlices")
def tensor_copy_slices(call: Call) -> Value:
    """(x, values, begin, end, strides): the values in place of a slice of x, whose sizes are known."""
    value = call.tensor(0)
    shape = [call.static_dim(value, i) for i in range(call.rank(value))]
    bounds = zip(
        call.int_arguments(2, "begin"), call.int_arguments(3, "end"), call.int_arguments(4, "strides"), strict=True
    )
    at = np.arange(int(np.prod(shape))).reshape(shape)[tuple(slice(*b) for b in bounds)]
    values = call.cast(call.tensor(1), value.dtype)
    values = call.emit("Reshape", call.emit("Expand", values, call.ints(at.shape)), call.ints([-1]))
    flat = call.emit("Reshape", value, call.ints([-1]))
    result = call.emit("ScatterElements", flat, call.const(at.reshape(-1), I64), values, axis=0)
    return call.emit("Reshape", result, call.ints(shape))
