"""Pad: the inside is copied; then axis by axis the slabs beside it are filled, the later ones from the earlier.

Working axis by axis makes each slab one box: a constant repeats with stride 0, an edge repeats an axis with stride 0, a
reflection runs backwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels import PLAIN, Buffer, BufferKind, TensorView
from autofusion_kernels_cpu.movement.box import Region, region_boxes
from autofusion_kernels_cpu.movement.problem import Move, Movement, Stages, Views
from autofusion_kernels_cpu.support import constant_ints, result, static
from autofusion_kernels_cpu.unsupported import Unsupported

_MODES = ("constant", "edge", "reflect", "wrap")


def pad(node: Node) -> Movement:
    """All modes; negative pads crop."""
    type_, out_type = static(node, 0), result(node)
    pads = constant_ints(node, 1)
    if type_ is None or out_type is None or pads is None:
        raise Unsupported("its pads or its shape are not constant")
    shape, rank = type_.static_shape, len(type_.static_shape)
    axes = constant_ints(node, 3) if node.operand(3) is not None else list(range(rank))
    if axes is None:
        raise Unsupported("its axes are not constant")
    low, high = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[i + len(axes)]
    mode = node.attr("mode") or "constant"
    if mode not in _MODES:
        raise Unsupported(f"its mode '{mode}' is unknown")
    crop = tuple(max(-pads_low, 0) for pads_low in low)
    first = tuple(max(pads_low, 0) for pads_low in low)
    inside = [n + min(a, 0) + min(b, 0) for n, a, b in zip(shape, low, high, strict=True)]
    after = [max(b, 0) for b in high]
    if any(n < 0 for n in inside):
        raise Unsupported("it crops more than there is")
    if mode != "constant":
        _check_reach(mode, inside, first, after)
    has_value = node.operand(2) is not None

    def moves(inputs: Views, outputs: Sequence[TensorView]) -> Stages:
        source, out = inputs[0], outputs[0]
        assert source is not None
        ones = (1,) * rank
        boxes = region_boxes(source, out, inside, source_region=Region(crop, ones), result_region=Region(first, ones))
        stages = [[Move(source, out, box) for box in boxes]]
        value: TensorView | np.ndarray | None = inputs[2] if has_value else None
        if value is None:
            value = np.zeros(1, out.type.dtype)
        done = list(inside)
        start = list(first)
        for axis in range(rank):
            slabs = []
            for at, size, origin, step in _slabs(mode, inside[axis], first[axis], after[axis]):
                sizes = [*done[:axis], size, *done[axis + 1 :]]
                there = Region((*start[:axis], at, *start[axis + 1 :]), ones)
                if mode == "constant":
                    boxes = region_boxes(_everywhere(out.type, rank), out, sizes, result_region=there)
                    slabs += [Move(value, out, box) for box in boxes]
                else:
                    here = Region((*start[:axis], origin, *start[axis + 1 :]), (*ones[:axis], step, *ones[axis + 1 :]))
                    boxes = region_boxes(out, out, sizes, source_region=here, result_region=there)
                    slabs += [Move(out, out, box) for box in boxes]
            done[axis], start[axis] = first[axis] + inside[axis] + after[axis], 0
            if mode == "constant":
                stages[0] += slabs
            elif slabs:
                stages.append(slabs)
        return stages

    return Movement("pad", (0,), moves)


def _check_reach(mode: str, inside: Sequence[int], before: Sequence[int], after: Sequence[int]) -> None:
    for n, a, b in zip(inside, before, after, strict=True):
        reach = {"edge": 1 << 62 if n else 0, "reflect": max(n - 1, 0), "wrap": n}[mode]
        if max(a, b) > reach:
            raise Unsupported(f"it pads by {max(a, b)} of {n} elements with mode '{mode}'")


def _slabs(mode: str, n: int, before: int, after: int) -> list[tuple[int, int, int, int]]:
    """(start in the result, size, start and step in the result of what is repeated) beside `n` inner positions."""
    end = before + n
    origin, step = {
        "constant": ((0, 0), 0),
        "edge": ((before, end - 1), 0),
        "reflect": ((2 * before, end - 2), -1),
        "wrap": ((n, before), 1),
    }[mode]
    return [slab for slab in ((0, before, origin[0], step), (end, after, origin[1], step)) if slab[1]]


def _everywhere(type_: TensorType, rank: int) -> TensorView:
    """A plain view whose every element is the first one of its memory."""
    return TensorView(type_, PLAIN, (0,) * rank, Buffer(BufferKind.CONSTANT, 0))
