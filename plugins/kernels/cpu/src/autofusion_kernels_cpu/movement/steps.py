"""From boxes to native steps: choose a kernel for each box, split it for threads, put equal boxes into one step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autofusion.kernels import Target, TensorView
from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.movement import kernels
from autofusion_kernels_cpu.movement.box import Box, region_boxes
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.native.program import NativeStep, Ref
from autofusion_kernels_cpu.support import isa_of, parameters

_RUN_PART = 1 << 14
"""Bytes into which a long run is cut, so that threads can share it."""
_UNIT = 1 << 13
"""Bytes below which a unit of work is not worth splitting."""

_BUILDERS: dict[str, Callable[[Isa, int], Module]] = {
    "bytes": lambda isa, _: kernels.bytes_kernel(isa),
    "vector": lambda isa, _: kernels.vector_kernel(isa),
    "masked": lambda isa, _: kernels.masked_kernel(isa),
    "fill": kernels.fill_kernel,
    "gather": kernels.gather_kernel,
    "element": kernels.element_kernel,
    "transpose": kernels.transpose_kernel,
}

_ELEMENT_SECONDS = {"element": 1e-9, "gather": 5e-10, "transpose": 1e-10, "masked": 1e-10}
"""Of one core beyond what the traffic costs, roughly."""


@functools.cache
def _function(kind: str, isa: Isa, itemsize: int) -> int:
    return jit().kernel(_BUILDERS[kind](isa, itemsize))


@dataclass(frozen=True, slots=True)
class Move:
    """A box between two places: a view, or an array of the kernel's own as source."""

    source: TensorView | np.ndarray
    result: TensorView
    box: Box


@dataclass(frozen=True, slots=True)
class _Shape:
    """A box without its offsets, made ready for a kernel; strides in bytes."""

    kind: str
    outer: tuple[tuple[int, int, int], ...]
    middle: tuple[int, int, int]
    inner: tuple[int, int, int]
    shrink: int
    itemsize: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Boxes of one shape into one result: (number of the source, its offset, result offset, count) in bytes."""

    result: TensorView
    shape: _Shape
    sources: list[TensorView | np.ndarray]
    pieces: list[tuple[int, int, int, int]]

    def add(self, source: TensorView | np.ndarray, box: Box, count: int, itemsize: int) -> None:
        number = next((i for i, known in enumerate(self.sources) if known is source), len(self.sources))
        if number == len(self.sources):
            self.sources.append(source)
        self.pieces.append((number, box.source_offset * itemsize, box.result_offset * itemsize, count))


def between(source: TensorView, result: TensorView, target: Target, name: str = "copy") -> list[NativeStep]:
    """Steps that copy all of `source` into `result`, whatever the layouts, strides and borders of the two."""
    boxes = region_boxes(source, result, result.shape)
    return copy_steps([Move(source, result, box) for box in boxes], target, name)


def copy_steps(moves: Sequence[Move], target: Target, name: str) -> list[NativeStep]:
    """Steps for moves that do not depend on each other; the last one ends with a barrier."""
    isa = isa_of(target)
    shaped = []
    for move in moves:
        box = move.box.simplified()
        if box is not None:
            shape, count = _shape(box, move.result.type.dtype.itemsize, isa)
            shaped.append((move, box, shape, count))
    masked = {replace(shape, kind="vector") for _, _, shape, _ in shaped if shape.kind == "masked"}
    groups: dict[tuple[int, _Shape], _Group] = {}
    for move, box, shape, count in shaped:
        # Whole vectors join the partial ones that they lie among.
        joined = replace(shape, kind="masked") if shape in masked else shape
        group = groups.setdefault((id(move.result), joined), _Group(move.result, joined, [], []))
        group.add(move.source, box, count, move.result.type.dtype.itemsize)
    steps = [_step(group, target, isa, name) for group in groups.values()]
    return [replace(step, barrier=i == len(steps) - 1) for i, step in enumerate(steps)]


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
        slow += elements * _ELEMENT_SECONDS.get(_shape(simple, itemsize, isa)[0].kind, 0.0)
    return max(roofline(target, 0, nbytes).seconds, slow / target.threads)


def _shape(box: Box, itemsize: int, isa: Isa) -> tuple[_Shape, int]:
    """The box made ready, and the count of inner elements (bytes for a run of bytes)."""
    axes = [(dim, s * itemsize, r * itemsize) for dim, s, r in zip(box.dims, box.source, box.result, strict=True)]
    inner = axes.pop() if axes else (1, itemsize, itemsize)
    count, source, result = inner
    if result == itemsize and source == itemsize:
        return _run(axes, count * itemsize, itemsize, isa)
    lanes = isa.bytes // itemsize
    kind = "element"
    if result == itemsize and source == 0:
        kind = "fill"
    elif result == itemsize and itemsize in (4, 8):
        along = next((i for i, axis in enumerate(axes) if axis[1] == itemsize and 2 * axis[0] >= lanes), None)
        if along is not None:
            axes.append(axes.pop(along))
            kind = "transpose"
        elif 2 * count >= lanes and abs(source) * lanes < 1 << 31:
            kind = "gather"
    middle = axes.pop() if axes else (1, 0, 0)
    return _Shape(kind, tuple(axes), middle, (0, source, result), 0, itemsize), count


def _run(axes: list[tuple[int, int, int]], nbytes: int, itemsize: int, isa: Isa) -> tuple[_Shape, int]:
    """A contiguous inner axis of that many bytes."""
    if axes and nbytes == isa.bytes:
        return _Shape("vector", tuple(axes[:-1]), axes[-1], (0, 0, 0), 0, 4), nbytes // 4
    if axes and nbytes < isa.bytes and nbytes % 4 == 0:
        return _Shape("masked", tuple(axes[:-1]), axes[-1], (0, 0, 0), 0, 4), nbytes // 4
    if axes and nbytes <= _RUN_PART:
        return _Shape("bytes", tuple(axes[:-1]), axes[-1], (nbytes, 0, 0), 0, 1), nbytes
    part = (-(-nbytes // _RUN_PART), _RUN_PART, _RUN_PART)
    return _Shape("bytes", tuple(axes), part, (_RUN_PART, 0, 0), _RUN_PART, 1), nbytes


def _step(group: _Group, target: Target, isa: Isa, name: str) -> NativeStep:
    shape, pieces = group.shape, sorted(group.pieces, key=lambda piece: piece[2])
    outer, middle = math.prod(axis[0] for axis in shape.outer), shape.middle[0]
    largest = max(piece[3] for piece in pieces) * shape.itemsize
    per_middle = min(largest, _RUN_PART) if shape.shrink else largest
    workers = roofline(target, 0, 2 * outer * middle * sum(piece[3] for piece in pieces) * shape.itemsize).workers
    chunk = middle
    if workers > 1:
        wanted = -(-4 * workers // (outer * len(pieces)))
        chunk = max(-(-middle // wanted), -(-_UNIT // per_middle))
    if len(pieces) > 1:
        chunk = min(chunk, max(_UNIT // per_middle, 1))
    if shape.kind == "transpose":
        lanes = isa.bytes // shape.itemsize
        chunk = -(-chunk // lanes) * lanes
    chunk = min(chunk, middle)
    params = [
        len(pieces), outer, -(-middle // chunk), chunk, *shape.middle, *shape.inner, shape.shrink, workers,
        len(shape.outer),
    ]  # fmt: skip
    for axis in reversed(shape.outer):
        params += axis
    for piece in pieces:
        params += piece
    function = _function(shape.kind, isa, shape.itemsize)
    return NativeStep(function, (Ref(group.result), *map(Ref, group.sources)), parameters(params), True, name, workers)
