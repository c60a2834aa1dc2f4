"""Movement that costs nothing: results that are only another view of their operand's memory.

Core proposes them beside the packs' offers, because they concern layouts and not kernels: an ``Alias`` maps the
operand's view to the results' views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autofusion.ir import operators
from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import PLAIN, Layout, Operand, TensorView, dense_strides, storable


@dataclass(frozen=True, slots=True)
class Alias:
    """A node that needs no kernel: ``views(operand view, result types)`` gives one view for each result, in the buffer
    of its first operand.
    """

    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]
    views: Callable[[TensorView, Sequence[TensorType]], Sequence[TensorView]]
    kernel: str = "view"


def _alias(
    node: Node,
    source: Layout,
    results: Sequence[Layout],
    views: Callable[[TensorView, Sequence[TensorType]], Sequence[TensorView]],
) -> Alias:
    operands = tuple(
        Operand(source) if i == 0 else (None if v is None else Operand()) for i, v in enumerate(node.inputs)
    )
    return Alias(operands, tuple(Operand(r) for r in results), views)


def aliases(node: Node, blocks: Sequence[int]) -> list[Alias]:
    """Every way in which the results of ``node`` are views of its first operand; ``blocks`` are the block sizes in
    use.
    """
    operand = node.operand(0)
    if operand is None or operand.const is not None or not storable(operand.type):
        return []
    if not all(storable(v.type) for v in node.outputs):
        return []
    if any(v.use_count for v in node.outputs[1:]) and operators.is_view(node.op):
        return []  # the mask of a Dropout is not a view of its operand
    training = node.operand(2) if node.op == "Dropout" else None
    if training is not None and (training.const is None or training.const.any()):
        return []  # elements are dropped
    if operators.is_view(node.op) and node.output.tensor.static_shape == operand.type.static_shape:
        layouts = [PLAIN, *(Layout(b) for b in blocks if operand.type.rank is not None and operand.type.rank >= 3)]
        return [_alias(node, layout, [layout] * len(node.outputs), _same) for layout in layouts]
    if operators.is_view(node.op):
        return _reshapes(node, operand.type, blocks)
    if node.op in ("Slice", "Split"):
        return _slices(node, operand.type, blocks)
    return []


def _same(view: TensorView, types: Sequence[TensorType]) -> Sequence[TensorView]:
    return [view] * len(types)  # results but the first are not used


def _dense(view: TensorView, types: Sequence[TensorType]) -> Sequence[TensorView]:
    return [replace(view, type=types[0], layout=PLAIN, strides=dense_strides(types[0].static_shape), border=())]


def _reshapes(node: Node, type_: TensorType, blocks: Sequence[int]) -> list[Alias]:
    found = [_alias(node, PLAIN, [PLAIN], _dense)]
    shape, result = type_.static_shape, node.output.tensor.static_shape
    # With one pixel, the blocks of an image are its channels one after the other: [N, C, 1, 1] is [N, C] already.
    if len(shape) >= 3 and len(result) == 2 and result == shape[:2] and all(d == 1 for d in shape[2:]):
        found += [_alias(node, Layout(b), [PLAIN], _dense) for b in blocks if shape[0] == 1 or shape[1] % b == 0]
    if len(result) >= 3 and len(shape) == 2 and shape == result[:2] and all(d == 1 for d in result[2:]):
        found += [_alias(node, PLAIN, [Layout(b)], _to_pixels(b)) for b in blocks if shape[1] % b == 0]
    return found


def _to_pixels(block: int) -> Callable[[TensorView, Sequence[TensorType]], Sequence[TensorView]]:
    def alias(view: TensorView, types: Sequence[TensorType]) -> Sequence[TensorView]:
        channels, spatial = types[0].static_shape[1], len(types[0].static_shape) - 2
        strides = (channels, *([block] * (1 + spatial)))
        return [replace(view, type=types[0], layout=Layout(block), strides=strides, border=())]

    return alias


def _slices(node: Node, type_: TensorType, blocks: Sequence[int]) -> list[Alias]:
    ranges = slice_ranges(node)
    if ranges is None:
        return []
    axis, starts = ranges
    shape = type_.static_shape
    found = []
    if all(d == 1 for d in shape[:axis]):
        step = dense_strides(shape)[axis]
        found.append(_alias(node, PLAIN, [PLAIN] * len(starts), _plain_slices([s * step for s in starts])))
    if axis == 1 and len(shape) >= 3:
        sizes = [v.tensor.static_shape[1] for v in node.outputs]
        for block in blocks:
            fits = all(
                s % block == 0 and ((s + n) % block == 0 or s + n == shape[1])
                for s, n in zip(starts, sizes, strict=True)
            )
            if fits:
                found.append(_alias(node, Layout(block), [Layout(block)] * len(starts), _blocked_slices(starts, block)))
    return found


def slice_ranges(node: Node) -> tuple[int, list[int]] | None:
    """(axis, start of each result) if ``node`` cuts its operand along one axis with step 1, otherwise None."""
    shape = node.inputs[0].tensor.static_shape if node.inputs[0] is not None else ()
    if node.op == "Split":
        axis = int(node.attr("axis", 0)) % max(len(shape), 1)
        starts, position = [], 0
        for value in node.outputs:
            starts.append(position)
            position += value.tensor.static_shape[axis]
        return axis, starts
    constants = [None if v is None else v.const for v in node.inputs[1:]]
    if any(v is not None and v.const is None for v in node.inputs[1:]) or len(constants) < 2 or constants[0] is None:
        return None
    begin = [int(x) for x in constants[0]]
    axes = (
        [int(x) % len(shape) for x in constants[2]]
        if len(constants) > 2 and constants[2] is not None
        else list(range(len(begin)))
    )
    steps = [int(x) for x in constants[3]] if len(constants) > 3 and constants[3] is not None else [1] * len(begin)
    result = node.output.tensor.static_shape
    cut = [(a, b) for a, b, s in zip(axes, begin, steps, strict=True) if result[a] != shape[a] or s != 1]
    if len(cut) != 1 or any(s != 1 for a, s in zip(axes, steps, strict=True) if a == cut[0][0]):
        return None
    axis, start = cut[0]
    start = max(start + shape[axis], 0) if start < 0 else min(start, shape[axis])
    return axis, [start]


def _plain_slices(offsets: Sequence[int]) -> Callable[[TensorView, Sequence[TensorType]], Sequence[TensorView]]:
    def alias(view: TensorView, types: Sequence[TensorType]) -> Sequence[TensorView]:
        return [
            replace(view, type=t, strides=dense_strides(t.static_shape), offset=view.offset + o)
            for t, o in zip(types, offsets, strict=True)
        ]

    return alias


def _blocked_slices(
    starts: Sequence[int], block: int
) -> Callable[[TensorView, Sequence[TensorType]], Sequence[TensorView]]:
    def alias(view: TensorView, types: Sequence[TensorType]) -> Sequence[TensorView]:
        return [
            replace(view, type=t, offset=view.offset + s // block * view.strides[1])
            for t, s in zip(types, starts, strict=True)
        ]

    return alias
