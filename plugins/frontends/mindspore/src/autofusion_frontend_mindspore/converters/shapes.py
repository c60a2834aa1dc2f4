"""Primitives that change a tensor's shape, ask for it, or reorder its axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter


@converter("Reshape", "View", "ViewAs", "ReshapeExt")
def reshape(call: Call) -> Value:
    """To a shape, one size of which may be -1; a 0 is a size."""
    value = call.tensor(0)
    if call.op == "ViewAs":
        return call.emit("Reshape", value, call.emit("Shape", call.tensor(1)), allowzero=1)
    wanted = call.args[1] if len(call.args) > 1 else call.argument(1, "shape")
    sizes = call.sizes(wanted)
    zero = sizes.const is not None and bool((sizes.const == 0).any())
    return call.emit("Reshape", value, sizes, **({"allowzero": 1} if zero or sizes.const is None else {}))


@converter("Transpose", "TransposeView")
def transpose(call: Call) -> Value:
    """By a permutation, whose axes may count from the end."""
    value, perm = call.tensor(0), call.int_arguments(1, "perm")
    return call.emit("Transpose", value, perm=[call.axis(p, value) for p in perm])


@converter("TransposeExtView")
def swap(call: Call) -> Value:
    """Two axes swapped."""
    value = call.tensor(0)
    a, b = (call.axis(int(call.argument(i, n)), value) for i, n in ((1, "dim0"), (2, "dim1")))
    perm = list(range(call.rank(value)))
    perm[a], perm[b] = perm[b], perm[a]
    return call.emit("Transpose", value, perm=perm)


@converter("TExt")
def transposed(call: Call) -> Value:
    """A matrix transposed."""
    value = call.tensor(0)
    return call.emit("Transpose", value, perm=list(reversed(range(call.rank(value)))))


@converter("ExpandDims", "ExpandDimsView")
def expand_dims(call: Call) -> Value:
    """A new axis of size 1."""
    return call.emit("Unsqueeze", call.tensor(0), call.ints(call.int_arguments(1, "axis")))


@converter("Squeeze")
def squeeze(call: Call) -> Value:
    """Without the named axes of size 1, or without all of them."""
    axes = call.int_arguments(1, "axis", ())
    return call.emit("Squeeze", call.tensor(0), call.ints(axes) if axes else None)


@converter("Flatten")
def flatten(call: Call) -> Value:
    """To a matrix; the first axis stays."""
    return call.emit("Flatten", call.tensor(0), axis=1)


@converter("FlattenExt")
def flatten_ext(call: Call) -> Value:
    """The axes from one to another joined to one."""
    value = call.tensor(0)
    rank = call.rank(value)
    if rank == 0:
        return call.emit("Reshape", value, call.ints([1]))
    first, last = (
        call.axis(int(call.argument(i, n, d)), value) for i, n, d in ((1, "start_dim", 0), (2, "end_dim", -1))
    )
    parts = [call.emit("Shape", value, start=0, end=first)] if first else []
    parts.append(call.ints([-1]))
    if last < rank - 1:
        parts.append(call.emit("Shape", value, start=last + 1))
    shape = parts[0] if len(parts) == 1 else call.emit("Concat", *parts, axis=0)
    return call.emit("Reshape", value, shape)


@converter("BroadcastTo", "BroadcastToView", "ExpandAs")
def broadcast_to(call: Call) -> Value:
    """To a shape, in which -1 keeps the operand's size."""
    value = call.tensor(0)
    if call.op == "ExpandAs":
        return call.emit("Expand", value, call.emit("Shape", call.tensor(1)))
    wanted = call.args[1] if len(call.args) > 1 else call.argument(1, "shape")
    if isinstance(wanted, tuple):
        new = len(wanted) - call.rank(value)
        wanted = tuple(
            (
                call.emit("Shape", value, start=i - new, end=i - new + 1)
                if value.shape is None
                else _dim(call, value, i - new)
            )
            if isinstance(w, int) and w == -1
            else w
            for i, w in enumerate(wanted)
        )
    return call.emit("Expand", value, call.sizes(wanted))


def _dim(call: Call, value: Value, axis: int) -> Any:
    if axis < 0:
        return 1
    assert value.shape is not None
    size = value.shape[axis]
    return size if isinstance(size, int) else call.emit("Shape", value, start=axis, end=axis + 1)


@converter("Tile", "Repeat")
def tile(call: Call) -> Value:
    """Repeated along each axis; more numbers than axes make new axes in front, fewer leave the first ones."""
    value, times = call.tensor(0), call.int_arguments(1, "multiples")
    missing = len(times) - call.rank(value)
    if missing > 0:
        value = call.emit("Unsqueeze", value, call.ints(list(range(missing))))
    return call.emit("Tile", value, call.ints([1] * max(-missing, 0) + list(times)))


@converter("RepeatInterleaveInt", "RepeatElements")
def repeat_interleave(call: Call) -> Value:
    """Every element along an axis repeated in place."""
    elements = call.op == "RepeatElements"
    value, times = call.tensor(0), int(call.argument(1, "rep" if elements else "repeats"))
    axis = call.argument(2, "axis" if elements else "dim", None)
    if axis is None:
        value, axis = call.emit("Reshape", value, call.ints([-1])), 0
    axis = call.axis(int(axis), value)
    size = call.static_dim(value, axis)
    return call.emit("Gather", value, call.ints(np.repeat(np.arange(size), times).tolist()), axis=axis)


@converter("Shape", "TensorShape", "DynamicShape")
def shape(call: Call) -> Any:
    """The sizes as a tuple of numbers, or as a tensor."""
    value = call.tensor(0)
    if call.op != "Shape":
        return call.emit("Shape", value)
    sizes = []
    for axis in range(call.rank(value)):
        size = _dim(call, value, axis)
        sizes.append(size if isinstance(size, int) else call.emit("Reshape", size, call.ints([])))
    return tuple(sizes)


@converter("Rank")
def rank(call: Call) -> int:
    """The number of axes."""
    return call.rank(call.tensor(0))


@converter("Size")
def size(call: Call) -> Value:
    """The number of elements."""
    return call.emit("Size", call.tensor(0))


@converter("DepthToSpace", "SpaceToDepth")
def depth_to_space(call: Call) -> Value:
    """Blocks moved between channels and places."""
    block = int(call.argument(1, "block_size"))
    if call.op == "DepthToSpace":
        return call.emit("DepthToSpace", call.tensor(0), blocksize=block, mode="DCR")
    return call.emit("SpaceToDepth", call.tensor(0), blocksize=block)


@converter("PixelShuffle")
def pixel_shuffle(call: Call) -> Value:
    """Channels moved to places, the other way round than DepthToSpace counts them."""
    return call.emit("DepthToSpace", call.tensor(0), blocksize=int(call.argument(1, "upscale_factor")), mode="CRD")


@converter("ReverseV2")
def reverse(call: Call) -> Value:
    """Axes reversed."""
    axes = call.int_arguments(1, "axis")
    count = len(axes)
    least = np.iinfo(np.int64).min
    starts, ends, steps = ([n] * count for n in (-1, least, -1))
    return call.emit("Slice", call.tensor(0), call.ints(starts), call.ints(ends), call.ints(axes), call.ints(steps))


@converter("Roll")
def roll(call: Call) -> Value:
    """Elements moved along axes; what leaves at one end comes back at the other."""
    value, shifts, axes = call.tensor(0), call.int_arguments(1, "shifts"), call.int_arguments(2, "dims", ())
    if not axes:
        whole = call.emit("Shape", value)
        flat = rolled(call, call.emit("Reshape", value, call.ints([-1])), shifts[0], 0)
        return call.emit("Reshape", flat, whole)
    for amount, axis in zip(shifts, axes, strict=True):
        value = rolled(call, value, amount, call.axis(axis, value))
    return value


def rolled(call: Call, value: Value, amount: int, axis: int) -> Value:
    """Elements moved by ``amount`` along an axis (counted from the front); what leaves comes back at the other end."""
    amount %= max(call.static_dim(value, axis), 1)
    if not amount:
        return value
    at, greatest = call.ints([axis]), np.iinfo(np.int64).max
    tail = call.emit("Slice", value, call.ints([-amount]), call.ints([greatest]), at)
    return call.emit("Concat", tail, call.emit("Slice", value, call.ints([0]), call.ints([-amount]), at), axis=axis)


@converter("TensorToTuple", "TensorToList")
def tensor_to_tuple(call: Call) -> Any:
    """The elements of a vector as numbers."""
    value = call.tensor(0)
    count = call.static_dim(value, 0)
    if value.const is not None:
        return tuple(value.const.tolist())
    return tuple(call.emit("Gather", value, call.const(i, I64), axis=0) for i in range(count))


@converter("TupleToTensor", "ListToTensor", "ScalarToTensor")
def tuple_to_tensor(call: Call) -> Value:
    """Numbers as a tensor."""
    dtype = call.result_dtype()
    value = call.args[0]
    return call.cast(call.as_tensor(value, dtype), dtype)


@converter("TensorToScalar")
def tensor_to_scalar(call: Call) -> Any:
    """The one element of a tensor as a number.

    A truth value that is only known at run time stays a vector of one, as mint.equal declares it before it makes a
    Python value of it.
    """
    value = call.tensor(0)
    if value.const is not None:
        return value.const.item()
    return call.emit("Reshape", value, call.ints([1] if value.dtype == BOOL else []))
