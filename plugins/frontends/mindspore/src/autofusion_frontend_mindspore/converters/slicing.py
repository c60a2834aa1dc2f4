"""Slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter

_GREATEST, _LEAST = int(np.iinfo(np.int64).max), int(np.iinfo(np.int64).min)


def sliced(call: Call, value: Value, starts: Any, ends: Any, axes: list[int], steps: list[int]) -> Value:
    """A slice along axes; starts and ends may hold numbers that are computed."""
    return call.emit(
        "Slice", value, call.sizes(tuple(starts)), call.sizes(tuple(ends)), call.ints(axes), call.ints(steps)
    )


def _bound(call: Call, index: int) -> Any:
    """Operand ``index`` as a tuple of numbers, some of which may be computed."""
    value = call.args[index]
    if isinstance(value, Value):
        if value.const is not None:
            return call.python(value, "bound")
        count = call.static_dim(value, 0)
        return tuple(call.emit("Gather", call.cast(value, I64), call.const(i, I64), axis=0) for i in range(count))
    return value if isinstance(value, tuple) else (value,)


@converter("StridedSlice")
def strided_slice(call: Call) -> Value:
    """A slice by TensorFlow's rules.

    Five bit masks, a bit for each entry of the specification, say where the beginning and the end are to be ignored,
    which entry stands for all axes in between, which is a new axis, and which is one place whose axis disappears.
    """
    value = call.tensor(0)
    begin, end, strides = (_bound(call, i) for i in (1, 2, 3))
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    ignore_begin, ignore_end, ellipsis, new, shrink = (
        int(call.argument(4 + i, name, 0)) & ((1 << len(begin)) - 1) for i, name in enumerate(names)
    )
    if ellipsis & (ellipsis - 1):
        call.fail("more than one entry stands for all axes in between")
    entries = [i for i in range(len(begin)) if not (new >> i & 1 and not ellipsis >> i & 1)]
    taken = len([i for i in entries if not ellipsis >> i & 1])
    rank = call.rank(value)
    if taken > rank:
        call.fail(f"it slices {taken} axes of a tensor of rank {rank}")
    axis = result_axis = 0
    starts, ends, axes, steps, squeezed, added = [], [], [], [], [], []
    for i in range(len(begin)):
        if ellipsis >> i & 1:
            axis += rank - taken
            result_axis += rank - taken
            continue
        if new >> i & 1:
            added.append(result_axis)
            result_axis += 1
            continue
        step = int(call.python(strides[i], "strides"))
        if shrink >> i & 1:
            squeezed.append(axis)
            low = begin[i]
            high: Any = (low + 1 or _GREATEST) if isinstance(low, int) else _one_after(call, low)
            whole = False
            step = 1
        else:
            low = (0 if step > 0 else _GREATEST) if ignore_begin >> i & 1 else begin[i]
            high = (_GREATEST if step > 0 else _LEAST) if ignore_end >> i & 1 else end[i]
            whole = bool(ignore_begin >> i & 1 and ignore_end >> i & 1) and step == 1
            result_axis += 1
        if not whole:
            starts.append(low)
            ends.append(high)
            axes.append(axis)
            steps.append(step)
        axis += 1
    if axes:
        value = sliced(call, value, starts, ends, axes, steps)
    if squeezed:
        value = call.emit("Squeeze", value, call.ints(squeezed))
    if added:
        value = call.emit("Unsqueeze", value, call.ints(added))
    return value if axes or squeezed or added else call.emit("Identity", value)


def _one_after(call: Call, low: Value) -> Value:
    # The place after the last one, counted from the end, is the end itself.
    after = call.emit("Add", call.cast(low, I64), call.const(1, I64))
    at_end = call.emit("Equal", after, call.const(0, I64))
    return call.emit("Where", at_end, call.const(_GREATEST, I64), after)


@converter("Slice")
def slice_(call: Call) -> Value:
    """(x, begin, size); a size of -1 is all that is left."""
    value, begin, size = call.tensor(0), _bound(call, 1), _bound(call, 2)
    ends: list[Any] = []
    for low, count in zip(begin, size, strict=True):
        if isinstance(count, int) and count == -1:
            ends.append(_GREATEST)
        elif isinstance(low, int) and isinstance(count, int):
            ends.append(low + count)
        else:
            ends.append(call.emit("Add", *(call.cast(call.as_tensor(v), I64) for v in (low, count))))
    return sliced(call, value, begin, ends, list(range(len(begin))), [1] * len(begin))


@converter("SliceExt", "SliceExtView")
def slice_ext(call: Call) -> Value:
    """(x, axis, start, end, step)."""
    value = call.tensor(0)
    axis, step = int(call.argument(1, "dim", 0)), int(call.argument(4, "step", 1))
    low, high = call.args[2], call.args[3]
    return sliced(call, value, [0 if low is None else low], [_GREATEST if high is None else high], [axis], [step])


@converter("Narrow", "NarrowView")
def narrow(call: Call) -> Value:
    """(x, axis, start, length)."""
    value, axis = call.tensor(0), call.axis(int(call.argument(1, "dim")), call.tensor(0))
    low, count = int(call.argument(2, "start")), int(call.argument(3, "length"))
    if low < 0:
        low += call.static_dim(value, axis)
    return sliced(call, value, [low], [low + count], [axis], [1])


@converter("SelectExtView")
def select_ext(call: Call) -> Value:
    """(x, axis, place): one place along an axis, which disappears."""
    return call.emit("Gather", call.tensor(0), call.cast(call.tensor(2), I64), axis=int(call.argument(1, "dim")))


@converter("Unstack", "UnstackExtView")
def unstack(call: Call) -> tuple[Value, ...]:
    """Every place along an axis, which disappears."""
    value = call.tensor(0)
    (axis,) = call.int_arguments(1, "axis", call.attrs.get("dim", 0))
    axis = call.axis(axis, value)
    count = call.static_dim(value, axis)
    if count == 1:
        return (call.emit("Squeeze", value, call.ints([axis])),)
    parts = call.node("Split", [value], {"axis": axis, "num_outputs": count}, outputs=count).outputs
    return tuple(call.emit("Squeeze", part, call.ints([axis])) for part in parts)


def parts(call: Call, value: Value, axis: int, sizes: list[int]) -> tuple[Value, ...]:
    """``value`` cut along an axis."""
    if len(sizes) == 1:
        return (value,)
    attrs = {"axis": axis}
    return tuple(call.node("Split", [value, call.ints(sizes)], attrs, outputs=len(sizes)).outputs)


@converter("Split")
def split(call: Call) -> tuple[Value, ...]:
    """(x, axis, number of equal parts)."""
    value = call.tensor(0)
    axis = call.axis(int(call.argument(1, "axis", 0)), value)
    count = int(call.argument(2, "output_num", 1))
    if count == 1:
        return (value,)
    size = value.shape[axis] if value.shape else None
    if isinstance(size, int):
        if size % count:
            call.fail(f"axis {axis} has {size} elements, which cannot be cut into {count} equal parts")
        return parts(call, value, axis, [size // count] * count)
    return tuple(call.node("Split", [value], {"axis": axis, "num_outputs": count}, outputs=count).outputs)


@converter("SplitTensor", "SplitTensorView")
def split_tensor(call: Call) -> tuple[Value, ...]:
    """(x, size of a part, axis); the last part may be smaller."""
    value = call.tensor(0)
    axis = call.axis(int(call.argument(2, "dim", 0)), value)
    size, part = call.static_dim(value, axis), int(call.argument(1, "split_size"))
    return parts(call, value, axis, [min(part, size - low) for low in range(0, max(size, 1), part)])


@converter("SplitWithSize", "SplitWithSizeView", "SplitV")
def split_with_size(call: Call) -> tuple[Value, ...]:
    """(x, sizes, axis)."""
    value = call.tensor(0)
    sizes = list(call.int_arguments(1, "split_size", call.attrs.get("size_splits")))
    axis = call.axis(int(call.argument(2, "dim", call.attrs.get("split_dim", 0))), value)
    if -1 in sizes:
        sizes[sizes.index(-1)] = call.static_dim(value, axis) - sum(sizes) - 1
    return parts(call, value, axis, sizes)


@converter("Chunk", "ChunkView")
def chunk(call: Call) -> tuple[Value, ...]:
    """(x, number of parts, axis); the last part may be smaller, and there may be fewer parts."""
    value = call.tensor(0)
    axis = call.axis(int(call.argument(2, "dim", 0)), value)
    size, count = call.static_dim(value, axis), int(call.argument(1, "chunks"))
    part = max(-(size // -count), 1)
    return parts(call, value, axis, [min(part, size - low) for low in range(0, max(size, 1), part)])
