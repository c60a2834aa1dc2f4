"""How a box is walked and what that costs: which kernel copies it, along which of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.movement.box import Box
from autofusion_kernels_cpu.movement.kernel import tile_lanes

RUN_PART = 1 << 14
"""Bytes into which a long run is cut, so that threads can share it."""

_ELEMENT_SECONDS = {"element": 1e-9, "gather": 5e-10, "transpose": 1e-10, "masked": 1e-10}
"""Of one core beyond what the traffic costs, roughly."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A box without its offsets, made ready for a kernel; strides in bytes.

    `outer` and `middle` axes are (positions, source stride, result stride), `inner` is (bytes of a run, source stride,
    result stride). A run that is split over the middle axis has `shrink` bytes less left at each position.
    """

    kind: str
    outer: tuple[tuple[int, int, int], ...]
    middle: tuple[int, int, int]
    inner: tuple[int, int, int]
    shrink: int
    itemsize: int


def copy_seconds(boxes: Sequence[Box], itemsize: int, target: Target) -> float:
    """Estimated time of the boxes of one node together."""
    isa = isa_of(target)
    nbytes, slow = 0.0, 0.0
    for box in boxes:
        simple = box.simplified()
        if simple is None:
            continue
        elements = math.prod(simple.dims)
        nbytes += 2 * elements * itemsize
        slow += elements * _ELEMENT_SECONDS.get(walk_of(simple, itemsize, isa)[0].kind, 0.0)
    return max(roofline(target, 0, nbytes).seconds, slow / target.threads)


def walk_of(box: Box, itemsize: int, isa: Isa) -> tuple[Walk, int]:
    """How to walk a simplified box, and the count of inner elements (bytes for a run of bytes)."""
    axes = [(dim, s * itemsize, r * itemsize) for dim, s, r in zip(box.dims, box.source, box.result, strict=True)]
    inner = axes.pop() if axes else (1, itemsize, itemsize)
    count, source, result = inner
    if result == itemsize and source == itemsize:
        return _run(axes, count * itemsize, itemsize, isa)
    lanes = tile_lanes(isa, itemsize)
    kind = "element"
    if result == itemsize and source == 0:
        kind = "fill"
    elif result == itemsize and itemsize <= 8:
        along = next((i for i, axis in enumerate(axes) if axis[1] == itemsize and 2 * axis[0] >= lanes), None)
        if along is not None:
            axes.append(axes.pop(along))
            kind = "transpose"
        elif itemsize >= 4 and 2 * count >= lanes and abs(source) * lanes < 1 << 31:
            kind = "gather"
    middle = axes.pop() if axes else (1, 0, 0)
    return Walk(kind, tuple(axes), middle, (0, source, result), 0, itemsize), count


def _run(axes: list[tuple[int, int, int]], nbytes: int, itemsize: int, isa: Isa) -> tuple[Walk, int]:
    """A contiguous inner axis of that many bytes."""
    if axes and nbytes == isa.bytes:
        return Walk("vector", tuple(axes[:-1]), axes[-1], (0, 0, 0), 0, 4), nbytes // 4
    if axes and nbytes < isa.bytes and nbytes % 4 == 0:
        return Walk("masked", tuple(axes[:-1]), axes[-1], (0, 0, 0), 0, 4), nbytes // 4
    if axes and nbytes <= RUN_PART:
        return Walk("bytes", tuple(axes[:-1]), axes[-1], (nbytes, 0, 0), 0, 1), nbytes
    part = (-(-nbytes // RUN_PART), RUN_PART, RUN_PART)
    return Walk("bytes", tuple(axes), part, (RUN_PART, 0, 0), RUN_PART, 1), nbytes
