"""From boxes to native steps: equal boxes go into one step, cut for the threads that are worth using."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autofusion.kernels import Target, TensorView
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.movement.box import Box, region_boxes
from autofusion_kernels_cpu.movement.kernel import copy_kernel, tile_lanes
from autofusion_kernels_cpu.movement.problem import Move
from autofusion_kernels_cpu.movement.schedule import RUN_PART, Walk, walk_of
from autofusion_kernels_cpu.native.program import NativeStep, independent

_UNIT = 1 << 13
"""Bytes below which a unit of work is not worth splitting."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Boxes of one walk into one result: (number of the source, its offset, result offset, count) in bytes."""

    result: TensorView
    walk: Walk
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
    walks = []
    for move in moves:
        box = move.box.simplified()
        if box is not None:
            walk, count = walk_of(box, move.result.type.dtype.itemsize, isa)
            walks.append((move, box, walk, count))
    masked = {replace(walk, kind="vector") for _, _, walk, _ in walks if walk.kind == "masked"}
    groups: dict[tuple[int, Walk], _Group] = {}
    for move, box, walk, count in walks:
        # Whole vectors join the partial ones that they lie among.
        joined = replace(walk, kind="masked") if walk in masked else walk
        group = groups.setdefault((id(move.result), joined), _Group(move.result, joined, [], []))
        group.add(move.source, box, count, move.result.type.dtype.itemsize)
    steps = [_step(group, target, isa, name) for group in groups.values()]
    return list(independent(steps))


def _step(group: _Group, target: Target, isa: Isa, name: str) -> NativeStep:
    walk, pieces = group.walk, sorted(group.pieces, key=lambda piece: piece[2])
    outer, middle = math.prod(axis[0] for axis in walk.outer), walk.middle[0]
    largest = max(piece[3] for piece in pieces) * walk.itemsize
    per_middle = min(largest, RUN_PART) if walk.shrink else largest
    workers = roofline(target, 0, 2 * outer * middle * sum(piece[3] for piece in pieces) * walk.itemsize).workers
    chunk = middle
    if workers > 1:
        wanted = -(-4 * workers // (outer * len(pieces)))
        chunk = max(-(-middle // wanted), -(-_UNIT // per_middle))
    if len(pieces) > 1:
        chunk = min(chunk, max(_UNIT // per_middle, 1))
    if walk.kind == "transpose":
        lanes = tile_lanes(isa, walk.itemsize)
        chunk = -(-chunk // lanes) * lanes
    chunk = min(chunk, middle)
    params = {
        "pieces": len(pieces),
        "outer": outer,
        "parts": -(-middle // chunk),
        "chunk": chunk,
        "middle": middle,
        "source_middle": walk.middle[1],
        "result_middle": walk.middle[2],
        "inner": walk.inner[0],
        "source_inner": walk.inner[1],
        "result_inner": walk.inner[2],
        "shrink": walk.shrink,
        "workers": workers,
        "rank": len(walk.outer),
    }
    data = [number for part in (*reversed(walk.outer), *pieces) for number in part]
    kernel = copy_kernel(walk.kind, isa, walk.itemsize)
    return kernel.step({"result": group.result}, params, data, group.sources, label=name, workers=workers)
