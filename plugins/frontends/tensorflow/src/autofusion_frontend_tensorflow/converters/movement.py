"""Operators that move elements: transposing, joining, cutting, padding, tiling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.layout import layout_of
from autofusion_frontend_tensorflow.registry import converter


@converter("Transpose", "ConjugateTranspose")
def transpose(call: Call) -> Value:
    """The permutation is an operand."""
    perm = call.known_ints(1, "permutation")
    if sorted(p % max(len(perm), 1) for p in perm) != list(range(len(perm))):
        call.fail(f"{perm} is not a permutation")
    return call.transpose(call.operand(0), [p % len(perm) for p in perm])


@converter("ConcatV2", "Concat")
def concat(call: Call) -> Value:
    """The axis is the last operand (of Concat: the first)."""
    at = len(call.inputs) - 1 if call.op == "ConcatV2" else 0
    axis = call.known_int(at, "axis")
    parts = [v for i, v in enumerate(call.inputs) if i != at]
    axis = call.axis(axis, call.rank(parts[0]))
    return parts[0] if len(parts) == 1 else call.emit("Concat", *parts, axis=axis)


@converter("Pack")
def pack(call: Call) -> Value:
    """Joins along a new axis."""
    axis = call.axis(int(call.attr("axis", 0)), call.rank(call.operand(0)) + 1)
    parts = [call.unsqueeze(v, axis) for v in call.inputs]
    return parts[0] if len(parts) == 1 else call.emit("Concat", *parts, axis=axis)


@converter("Unpack")
def unpack(call: Call) -> list[Value]:
    """Takes an axis apart."""
    x = call.operand(0)
    axis, count = call.axis(int(call.attr("axis", 0)), call.rank(x)), int(call.attr("num", 0))
    return [call.squeeze(part, axis) for part in _split(call, x, axis, [1] * count)]


def _split(call: Call, x: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
    if x.const is not None:
        ends = np.cumsum(sizes)
        return [call.slice(x, axis, int(e - s), int(e)) for s, e in zip(sizes, ends, strict=True)]
    if len(sizes) == 1:
        return [x]
    return list(call.node("Split", [x, call.ints(sizes)], {"axis": axis}, outputs=len(sizes)).outputs)


@converter("Split")
def split(call: Call) -> list[Value]:
    """Operands: axis, value. Equal parts."""
    x, count = call.operand(1), int(call.attr("num_split", 1))
    axis = call.axis(call.known_int(0, "axis"), call.rank(x))
    assert x.shape is not None
    size = x.shape[axis]
    if isinstance(size, int):
        if size % count:
            call.fail(f"axis {axis} of size {size} cannot be split into {count} equal parts")
        return _split(call, x, axis, [size // count] * count)
    return list(call.node("Split", [x], {"axis": axis, "num_outputs": count}, outputs=count).outputs)


@converter("SplitV")
def split_by_sizes(call: Call) -> list[Value]:
    """Operands: value, sizes, axis. One size may be -1: the rest."""
    x, sizes = call.operand(0), call.operand(1)
    axis = call.axis(call.known_int(2, "axis"), call.rank(x))
    count = int(call.attr("num_split", 1))
    if sizes.const is None:
        return list(call.node("Split", [x, call.as_ints(sizes)], {"axis": axis}, outputs=count).outputs)
    given = [int(s) for s in sizes.const]
    if -1 in given:
        assert x.shape is not None
        size = x.shape[axis]
        if not isinstance(size, int):
            rest = call.emit("Sub", call.dim(x, axis), call.ints([sum(given) + 1]))
            parts = [rest if s == -1 else call.ints([s]) for s in given]
            whole = call.emit("Concat", *parts, axis=0) if len(parts) > 1 else rest
            return list(call.node("Split", [x, whole], {"axis": axis}, outputs=count).outputs)
        given[given.index(-1)] = size - sum(given) - 1
    return _split(call, x, axis, given)


@converter("Slice")
def slice_(call: Call) -> Value:
    """Operands: value, begin, size; a size of -1 goes to the end."""
    x, begin, size = call.operand(0), call.as_ints(call.operand(1)), call.as_ints(call.operand(2))
    rank = call.rank(x)
    axes = call.ints(range(rank))  # type: ignore[arg-type]
    end = call.emit("Add", begin, size)
    if size.const is None or bool((size.const == -1).any()):
        last = call.ints([np.iinfo(np.int64).max] * rank)
        open_ends = call.emit("Equal", size, call.ints([-1]))
        end = call.emit("Where", open_ends, last, end)
    return call.emit("Slice", x, begin, end, axes)


@converter("Pad", "PadV2", "MirrorPad")
def pad(call: Call) -> Value:
    """Amounts are [axis, begin or end]; the IR has all begins, then all ends."""
    x, amounts = call.operand(0), call.as_ints(call.operand(1))
    flat = call.emit("Reshape", call.transpose(amounts, [1, 0]), call.ints([-1]))
    if call.op == "Pad":
        return call.emit("Pad", x, flat)
    if call.op == "PadV2":
        return call.emit("Pad", x, flat, call.operand(2))
    if call.attr("mode", "REFLECT") == "REFLECT":
        return call.emit("Pad", x, flat, mode="reflect")
    return _symmetric(call, x, call.known(1, "amounts"))


def _symmetric(call: Call, x: Value, amounts: np.ndarray) -> Value:
    """Mirrors with the edge itself repeated, which the IR has no mode for: parts turned round and joined."""
    for axis, (begin, end) in enumerate(amounts.tolist()):
        parts = [x]
        if begin:
            parts.insert(0, _turned(call, call.slice(x, axis, 0, begin), axis))
        if end:
            parts.append(_turned(call, call.slice(x, axis, -end, np.iinfo(np.int64).max), axis))
        if len(parts) > 1:
            x = call.emit("Concat", *parts, axis=axis)
    return x


def _turned(call: Call, value: Value, axis: int) -> Value:
    return call.slice(value, axis, -1, np.iinfo(np.int64).min, -1)


@converter("ReverseV2")
def reverse(call: Call) -> Value:
    """Along the axes that an operand names."""
    x = call.operand(0)
    rank = call.rank(x)
    for axis in call.known_ints(1, "axes"):
        x = _turned(call, x, call.axis(axis, rank))
    return x


@converter("Reverse")
def reverse_where(call: Call) -> Value:
    """Along the axes that a vector of bools marks."""
    x = call.operand(0)
    for axis, marked in enumerate(call.known(1, "marks").reshape(-1)):
        x = _turned(call, x, axis) if marked else x
    return x


@converter("ReverseSequence")
def reverse_sequence(call: Call) -> Value:
    """The first elements along an axis, as many as an operand says for each batch element."""
    x = call.operand(0)
    rank = call.rank(x)
    time = call.axis(int(call.attr("seq_dim", 0)), rank)
    batch = call.axis(int(call.attr("batch_dim", 0)), rank)
    others = [a for a in range(rank) if a not in (time, batch)]
    perm = [time, batch, *others]
    value = call.emit(
        "ReverseSequence", call.transpose(x, perm), call.as_ints(call.operand(1)), time_axis=0, batch_axis=1
    )
    return call.transpose(value, [int(i) for i in np.argsort(perm)])


@converter("Tile")
def tile(call: Call) -> Value:
    """As in the IR."""
    return call.emit("Tile", call.operand(0), call.as_ints(call.operand(1)))


@converter("Roll")
def roll(call: Call) -> Value:
    """Turns axes by constant amounts."""
    x = call.operand(0)
    rank = call.rank(x)
    for shift, axis in zip(call.known_ints(1, "shift"), call.known_ints(2, "axis"), strict=True):
        axis = call.axis(axis, rank)
        assert x.shape is not None
        size = x.shape[axis]
        if not isinstance(size, int):
            call.fail(f"axis {axis} of '{x.name}' must have a known size, found {x.type}")
        at = size - shift % size if size else 0
        if at % max(size, 1):
            x = call.emit("Concat", call.slice(x, axis, at, size), call.slice(x, axis, 0, at), axis=axis)
    return x


@converter("SpaceToDepth", "DepthToSpace")
def depth(call: Call) -> Value:
    """Blocks of pixels become channels, or the other way round; the block's position is the slower index in both."""
    layout = layout_of(call)
    attrs = {"blocksize": int(call.attr("block_size", 2))}
    if call.op == "DepthToSpace":
        attrs["mode"] = "DCR"  # type: ignore[assignment]
    return layout.back(call, call.emit(call.op, layout.first(call, call.operand(0)), **attrs))


@converter("MatrixBandPart")
def band_part(call: Call) -> Value:
    """Keeps what lies at most so far below and above the diagonal."""
    x = call.operand(0)
    low, high = call.known_int(1, "lower band"), call.known_int(2, "upper band")
    if low >= 0:
        x = call.emit("Trilu", x, call.ints(-low), upper=1)
    if high >= 0:
        x = call.emit("Trilu", x, call.ints(high), upper=0)
    return x
