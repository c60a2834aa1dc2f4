"""Gathering, scattering, slicing with steps, sorting."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(slots=True)
class _Spec:
    """What a strided slice does: parts of the operand's axes, axes to drop, and new axes of the result."""

    axes: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    made: list[int] = field(default_factory=list)


def _read_masks(call: Call, count: int, rank: int) -> _Spec:
    """Which axis each of the ``count`` entries of the specification is about."""
    ellipsis, new, shrink = (int(call.attr(f"{n}_mask", 0)) for n in ("ellipsis", "new_axis", "shrink_axis"))
    spec, axis, place = _Spec(), 0, 0
    given = sum(1 for i in range(count) if not (new >> i & 1 or ellipsis >> i & 1))
    for i in range(count):
        if ellipsis >> i & 1:
            after = sum(1 for j in range(i + 1, count) if not new >> j & 1)
            skipped = rank - axis - after
            axis, place = axis + skipped, place + skipped
        elif new >> i & 1:
            spec.made.append(place)
            place += 1
        else:
            spec.axes.append(axis)
            spec.entries.append(i)
            if shrink >> i & 1:
                spec.dropped.append(axis)
            else:
                place += 1
            axis += 1
    if given > rank:
        call.fail(f"it slices {given} axes of '{call.operand(0).name}', which has {rank}")
    return spec


@converter("StridedSlice")
def strided_slice(call: Call) -> Value:
    """Python's slicing, spelt with five bit masks."""
    x = call.operand(0)
    begin, end, strides = (call.as_ints(call.operand(i)) for i in (1, 2, 3))
    count = next((v.shape[0] for v in (begin, end, strides) if v.shape and isinstance(v.shape[0], int)), None)
    if count is None:
        call.fail("the number of its axes is not known")
    spec = _read_masks(call, count, call.rank(x))
    steps = call.known_ints(3, "strides")
    starts, ends = _bounds(call, spec, begin, end, steps)
    if spec.axes:
        axes = call.ints(spec.axes)
        x = call.emit("Slice", x, starts, ends, axes, call.ints([steps[i] for i in spec.entries]))
    if spec.dropped:
        x = call.squeeze(x, *spec.dropped)
    return call.unsqueeze(x, *spec.made) if spec.made else x


def _bounds(call: Call, spec: _Spec, begin: Value, end: Value, steps: list[int]) -> tuple[Value, Value]:
    """Begins and ends of the sliced axes; a dropped axis takes one element, whatever its end and masks."""
    open_begin, open_end = int(call.attr("begin_mask", 0)), int(call.attr("end_mask", 0))
    shrink = int(call.attr("shrink_axis_mask", 0))
    starts, ends = [], []
    for i in spec.entries:
        one = bool(shrink >> i & 1)
        if open_begin >> i & 1 and not one:
            start = call.ints([0 if steps[i] > 0 else _LAST])
        else:
            start = call.slice(begin, 0, i, i + 1)
        if one:
            # The element before the end of the axis has no end but the open one.
            after = call.emit("Add", start, call.ints([1]))
            stop = call.emit("Where", call.emit("Equal", start, call.ints([-1])), call.ints([_LAST]), after)
        elif open_end >> i & 1:
            stop = call.ints([_LAST if steps[i] > 0 else _FIRST])
        else:
            stop = call.slice(end, 0, i, i + 1)
        starts.append(start)
        ends.append(stop)
    if len(starts) == 1:
        return starts[0], ends[0]
    if not starts:
        return call.ints([]), call.ints([])
    return call.emit("Concat", *starts, axis=0), call.emit("Concat", *ends, axis=0)


@converter("GatherV2", "Gather", "ResourceGather")
def gather(call: Call) -> Value:
    """Operands: value, indices, axis. With batch axes, each batch element has indices of its own."""
    x, indices = call.operand(0), call.operand(1)
    rank = call.rank(x)
    axis = call.axis(call.known_int(2, "axis"), rank) if len(call.inputs) > 2 else 0
    batch = int(call.attr("batch_dims", 0))
    batch = batch + call.rank(indices) if batch < 0 else batch
    if len(call.inputs) < 3:
        axis = max(axis, batch)
    if not batch:
        return call.emit("Gather", x, indices, axis=axis)
    # Bring the gathered axis behind the batch axes; GatherND then picks rows, which come after the indices' own axes.
    others = [a for a in range(batch, rank) if a != axis]
    moved = call.transpose(x, [*range(batch), axis, *others])
    inner = call.rank(indices)
    value = call.emit("GatherND", moved, call.unsqueeze(call.as_ints(indices), inner), batch_dims=batch)
    before, own = axis - batch, inner - batch
    perm = [
        *range(batch),
        *(batch + own + i for i in range(before)),
        *(batch + i for i in range(own)),
        *range(batch + own + before, batch + own + len(others)),
    ]
    return call.transpose(value, perm)


@converter("GatherNd")
def gather_nd(call: Call) -> Value:
    """Rows of indices."""
    return call.emit("GatherND", call.operand(0), call.as_ints(call.operand(1)))


@converter("ScatterNd")
def scatter_nd(call: Call) -> Value:
    """Operands: indices, updates, shape. Equal indices add up."""
    indices, updates, shape = call.as_ints(call.operand(0)), call.operand(1), call.as_ints(call.operand(2))
    zeros = call.emit("ConstantOfShape", shape, value=np.zeros(1, call.dtype(updates)))
    return call.emit("ScatterND", zeros, indices, updates, reduction="add")


_SCATTERS = {"Update": "none", "Add": "add", "Min": "min", "Max": "max"}


@converter(*(f"TensorScatter{name}" for name in _SCATTERS), "TensorScatterSub")
def tensor_scatter(call: Call) -> Value:
    """Operands: value, indices, updates."""
    x, indices, updates = call.operand(0), call.as_ints(call.operand(1)), call.operand(2)
    kind = call.op.removeprefix("TensorScatter")
    if kind == "Sub":
        kind, updates = "Add", call.emit("Neg", updates)
    return call.emit("ScatterND", x, indices, updates, reduction=_SCATTERS[kind])


@converter("OneHot")
def one_hot(call: Call) -> Value:
    """Indices out of range, negative ones too, give a row of the off value; the IR would count those from the end."""
    indices, depth, on, off = call.operand(0), call.vector(call.operand(1)), call.operand(2), call.operand(3)
    if call.dtype(indices).kind == "i":
        indices = call.as_ints(indices)
        negative = call.emit("Less", indices, call.ints(0))
        indices = call.emit("Where", negative, call.emit("Squeeze", depth), indices)
    values = call.emit("Concat", call.unsqueeze(off, 0), call.unsqueeze(on, 0), axis=0)
    return call.emit("OneHot", indices, depth, values, axis=int(call.attr("axis", -1)))


@converter("TopKV2", "TopK", outputs=("values", "indices"))
def top_k(call: Call) -> list[Value]:
    """The largest along the last axis, sorted."""
    count = call.vector(call.operand(1)) if call.op == "TopKV2" else call.ints([int(call.attr("k", 1))])
    attrs = {"axis": -1, "sorted": int(bool(call.attr("sorted", True)))}
    node = call.node("TopK", [call.operand(0), count], attrs, outputs=2)
    return [node.outputs[0], call.cast(node.outputs[1], call.dtype_attr("index_type", np.int32))]


@converter("Where")
def where(call: Call) -> Value:
    """The places of what is not zero, one a row."""
    return call.transpose(call.emit("NonZero", call.operand(0)), [1, 0])


@converter("Unique", "UniqueV2", outputs=("y", "idx"))
def unique(call: Call) -> list[Value]:
    """In the order of first appearance."""
    attrs = {"sorted": 0}
    if call.op == "UniqueV2":
        axes = call.known_ints(1, "axis")
        attrs |= {"axis": axes[0]} if axes else {}
    node = call.node("Unique", [call.operand(0)], attrs, outputs=3)
    return [node.outputs[0], call.cast(node.outputs[2], call.dtype_attr("out_idx", np.int32))]


@converter("LowerBound", "UpperBound")
def bound(call: Call) -> Value:
    """Operands: rows in order, values. How many of a row are below each value (or: not above it)."""
    rows, values = call.unsqueeze(call.operand(0), 1), call.unsqueeze(call.operand(1), 2)
    before = call.emit("Less" if call.op == "LowerBound" else "LessOrEqual", rows, values)
    counted = call.emit("ReduceSum", call.cast(before, np.int64), call.ints([2]), keepdims=0)
    return call.cast(counted, call.dtype_attr("out_type", np.int32))
