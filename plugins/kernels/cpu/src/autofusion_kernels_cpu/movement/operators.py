"""The movement operators, each as the moves between regions of its operands and its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from autofusion.ir.graph import Node
from autofusion.kernels import PLAIN, TensorView, dense_strides
from autofusion_kernels_cpu.movement.box import Box, Region, region_boxes
from autofusion_kernels_cpu.movement.pad import pad
from autofusion_kernels_cpu.movement.problem import Move, Movement, Stages, Views
from autofusion_kernels_cpu.support import constant_ints, result, static
from autofusion_kernels_cpu.unsupported import Unsupported


def _shape(node: Node, index: int = 0) -> tuple[int, ...]:
    type_ = static(node, index)
    if type_ is None:
        raise Unsupported(f"the shape of operand {index} is not static")
    return type_.static_shape


def _out(node: Node, index: int = 0) -> tuple[int, ...]:
    type_ = result(node, index)
    if type_ is None:
        raise Unsupported(f"the shape of result {index} is not static")
    return type_.static_shape


def _given(node: Node, index: int, name: str) -> list[int]:
    values = constant_ints(node, index)
    if values is None:
        raise Unsupported(f"its operand '{name}' is not constant")
    return values


def _start(rank: int, values: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(values.get(axis, 0) for axis in range(rank))


def _view(views: Views, index: int) -> TensorView:
    view = views[index]
    assert view is not None
    return view


def transpose(node: Node) -> Movement:
    rank = len(_shape(node))
    perm = [int(a) for a in node.attr("perm") or reversed(range(rank))]

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        source, out = _view(inputs, 0), outputs[0]
        return [[Move(source, out, box) for box in region_boxes(source, out, out.shape, perm=perm)]]

    return Movement("transpose", (0,), moves, ((0, 0), (1, 1), (1, 0), (0, 1)))


def concat(node: Node) -> Movement:
    rank = len(_out(node))
    axis = int(node.attrs["axis"]) % rank
    sizes = [_shape(node, i)[axis] for i in range(len(node.inputs))]

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        out, made = outputs[0], []
        for i in range(len(inputs)):
            source = _view(inputs, i)
            there = Region(_start(rank, {axis: sum(sizes[:i])}), (1,) * rank)
            boxes = region_boxes(source, out, source.shape, result_region=there)
            made += [Move(source, out, box) for box in boxes]
        return [made]

    return Movement("concat", tuple(range(len(sizes))), moves)


def split(node: Node) -> Movement:
    rank = len(_shape(node))
    axis = int(node.attr("axis", 0)) % rank
    sizes = [_out(node, i)[axis] for i in range(len(node.outputs))]

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        source, made = _view(inputs, 0), []
        for i, out in enumerate(outputs):
            here = Region(_start(rank, {axis: sum(sizes[:i])}), (1,) * rank)
            made += [Move(source, out, box) for box in region_boxes(source, out, out.shape, source_region=here)]
        return [made]

    return Movement("split", (0,), moves)


def slice_(node: Node) -> Movement:
    shape = _shape(node)
    rank = len(shape)
    starts = _given(node, 1, "starts")
    axes = _given(node, 3, "axes") if node.operand(3) is not None else list(range(len(starts)))
    steps = _given(node, 4, "steps") if node.operand(4) is not None else [1] * len(starts)
    first, step = [0] * rank, [1] * rank
    for start, axis, stride in zip(starts, axes, steps, strict=True):
        size = shape[axis]
        step[axis] = stride
        first[axis] = min(max(start + size if start < 0 else start, 0), size if stride > 0 else max(size - 1, 0))
    region = Region(tuple(first), tuple(step))

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        source, out = _view(inputs, 0), outputs[0]
        return [[Move(source, out, box) for box in region_boxes(source, out, out.shape, source_region=region)]]

    return Movement("slice", (0,), moves)


def expand(node: Node) -> Movement:
    shape, out_shape = _shape(node), _out(node)
    rank = len(out_shape)

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        source, out = _view(inputs, 0), outputs[0]
        missing = rank - len(shape)
        if source.layout != PLAIN and missing:
            raise Unsupported("it adds axes to a blocked tensor")
        padded = (1,) * missing + shape
        if source.layout == PLAIN:
            strides = (0,) * missing + source.strides
            source = TensorView(source.type.with_shape(padded), PLAIN, strides, source.buffer, source.offset)
        step = tuple(1 if a == b else 0 for a, b in zip(padded, out_shape, strict=True))
        region = Region((0,) * rank, step)
        return [[Move(source, out, box) for box in region_boxes(source, out, out_shape, source_region=region)]]

    return Movement("expand", (0,), moves)


def tile(node: Node) -> Movement:
    shape = _shape(node)
    repeats = _given(node, 1, "repeats")

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        source, out = _view(inputs, 0), outputs[0]
        dims: list[int] = []
        strides: list[int] = []
        spread: list[int] = []
        for axis, times in enumerate(repeats):
            dims += [times, shape[axis]]
            strides += [0, source.strides[axis]]
            spread += [out.strides[axis] * shape[axis], out.strides[axis]]
        return [[Move(source, out, Box(tuple(dims), tuple(strides), tuple(spread)))]]

    return Movement("tile", (0,), moves, ((0, 0),))


def _rearranged(kernel: str, split_shape: Sequence[int], order: Sequence[int], to_result: bool) -> Movement:
    """A dense tensor seen as `split_shape` whose axes are permuted: of the operand, or (inverse) of the result."""
    permuted = dense_strides([split_shape[a] for a in order])
    natural = dense_strides(split_shape)
    picked = tuple(natural[a] for a in order)
    dims = tuple(split_shape[a] for a in order)
    box = Box(dims, picked, permuted) if to_result else Box(dims, permuted, picked)

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        return [[Move(_view(inputs, 0), outputs[0], box)]]

    return Movement(kernel, (0,), moves, ((0, 0),))


def depth_to_space(node: Node) -> Movement:
    n, c, h, w = _shape(node)
    b = int(node.attrs["blocksize"])
    # The result is [n, channel, row, block row, column, block column].
    if (node.attr("mode") or "DCR") == "DCR":
        return _rearranged("depth_to_space", (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2), True)
    return _rearranged("depth_to_space", (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3), True)


def space_to_depth(node: Node) -> Movement:
    n, c, h, w = _shape(node)
    b = int(node.attrs["blocksize"])
    return _rearranged("space_to_depth", (n, c, h // b, b, w // b, b), (0, 3, 5, 1, 2, 4), True)


def copy(node: Node) -> Movement:
    """Reshapes where the result cannot be a view, and other names for the same bits."""
    count = math.prod(_out(node))
    source, out = static(node, 0), result(node)
    if source is None or out is None or source.dtype.itemsize != out.dtype.itemsize:
        raise Unsupported("its elements change their size")

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        return [[Move(_view(inputs, 0), outputs[0], Box((count,), (1,), (1,)))]]

    return Movement("copy", (0,), moves, ((0, 0),))


def bit_cast(node: Node) -> Movement:
    """The same bits under another name; sub-byte elements are held in whole bytes, whose upper bits differ by type."""
    source, out = static(node, 0), result(node)
    if source is None or out is None or "V" in (source.dtype.kind, out.dtype.kind):
        raise Unsupported("only elements of NumPy's own types are supported")
    return copy(node)


def eye_like(node: Node) -> Movement:
    """Zeros, then ones along a diagonal."""
    out = result(node)
    assert out is not None
    rows, columns = out.static_shape
    k = max(-rows, min(int(node.attr("k", 0)), columns))
    first, count = (k, min(rows, columns - k)) if k >= 0 else (-k * columns, min(rows + k, columns))
    zero, one = np.zeros(1, out.dtype), np.ones(1, out.dtype)

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        fill, diagonal = Box((rows * columns,), (0,), (1,)), Box((count,), (0,), (columns + 1,), 0, first)
        return [[Move(zero, outputs[0], fill)], [Move(one, outputs[0], diagonal)]]

    return Movement("eye_like", (), moves, ((0, 0),))


def gather(node: Node) -> Movement:
    """With constant indices; see `lookup` for indices that are only known when it runs."""
    shape = _shape(node)
    axis = int(node.attr("axis", 0)) % len(shape)
    indices = np.array(_given(node, 1, "indices"), np.int64)
    indices = np.where(indices < 0, indices + shape[axis], indices)
    if ((indices < 0) | (indices >= shape[axis])).any():
        raise Unsupported("an index is out of range")
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    pitch = shape[axis] * after, len(indices) * after

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        made = []
        for position, first, count, step in _progressions(indices):
            dims, strides, spread = (before, count, after), (pitch[0], step * after, 1), (pitch[1], after, 1)
            box = Box(dims, strides, spread, first * after, position * after)
            made.append(Move(_view(inputs, 0), outputs[0], box))
        return [made]

    return Movement("gather", (0,), moves, ((0, 0),))


def _progressions(indices: np.ndarray) -> list[tuple[int, int, int, int]]:
    """(position, first, count, step): the indices as arithmetic progressions, taken greedily."""
    found, position = [], 0
    values = indices.tolist()
    while position < len(values):
        count, step = 1, 0
        if position + 1 < len(values):
            step = values[position + 1] - values[position]
            while position + count < len(values) and values[position + count] - values[position + count - 1] == step:
                count += 1
        found.append((position, values[position], count, step))
        position += count
    return found


MOVEMENTS: dict[str, Callable[[Node], Movement]] = {
    "BitCast": bit_cast,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": copy,
    "Gather": gather,
    "Pad": pad,
    "Reshape": copy,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": copy,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": copy,
}
