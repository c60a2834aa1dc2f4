"""How the axes of a reduction are walked: which one vectors run along, and what is around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.nest import Axis
from autofusion_kernels_cpu.reduction import sweep
from autofusion_kernels_cpu.reduction.kernel import Structure

MAX_PARTS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How the axes are walked: rows outside, then the pieces of ``table``, then the axis that vectors run along.

    ``kinds`` has one entry for each operand. A piece has ``length`` elements, ``steps`` apart in the full operands;
    ``columns`` are the results along the innermost axis.
    """

    structure: Structure
    kinds: list[str]
    rows: list[Axis]
    table: np.ndarray
    length: int
    steps: Sequence[int]
    columns: int


def plan_axes(
    sizes: Sequence[int],
    classes: Sequence[bool],
    strides: Sequence[Sequence[int]],
    full: int,
    isa: Isa,
    whole: bool,
) -> Plan:
    """The walk over axes of ``sizes``, of which ``classes`` says whether they are reduced; ``strides`` are the
    operands', the ``full`` ones first. With ``whole``, the last axis is a block of channels.
    """
    count = len(strides)
    axes = _collapse(sizes, classes, strides)
    if whole:
        # The lanes of a channel block are never merged with anything, and lie together.
        assert all(s[-1] in (0, 1) for s in strides), strides
        axes = [*_collapse(sizes[:-1], classes[:-1], [s[:-1] for s in strides])]
        axes.append((Axis(sizes[-1], tuple(s[-1] for s in strides)), False))
    moving = axes[-1][0].strides if axes else ()
    if not axes or not set(moving if not axes[-1][1] else moving[:full]) <= {0, 1}:
        axes.append((Axis(1, (1,) * count), False))
    last, along = axes[-1]
    kept = [a for a, r in axes[:-1] if not r]
    reduced = [a for a, r in axes[:-1] if r]
    kinds = [sweep.VECTOR if s else sweep.SCALAR for s in last.strides]
    if along:
        kinds[full:] = [sweep.SCALAR] * (count - full)
        table = nest.offsets([Axis(a.size, a.strides[:full]) for a in reduced], full)
        return Plan(Structure(True), kinds, kept, table, last.size, (0,) * full, 1)
    vectors = -(-last.size // isa.lanes)
    parts = 1 if vectors == 1 else 2 if vectors == 2 else MAX_PARTS
    width = parts * isa.lanes
    if not whole:
        kept.append(Axis(-(-last.size // width), tuple(width * s for s in last.strides)))
    inner = reduced.pop() if reduced else Axis(1, (0,) * count)
    table = nest.offsets([Axis(a.size, a.strides[:full]) for a in reduced], full)
    structure = Structure(False, parts, 4 if parts == 1 else 1, whole)
    return Plan(structure, kinds, kept, table, inner.size, inner.strides[:full], last.size)


def _collapse(
    sizes: Sequence[int], classes: Sequence[bool], strides: Sequence[Sequence[int]]
) -> list[tuple[Axis, bool]]:
    """``nest.collapse`` that keeps reduced and other axes apart."""
    found: list[tuple[Axis, bool]] = []
    for i, (size, reduced) in enumerate(zip(sizes, classes, strict=True)):
        if size == 1:
            continue
        here = tuple(s[i] for s in strides)
        if found and found[-1][1] == reduced:
            before = found[-1][0]
            if all(a == b * size for a, b in zip(before.strides, here, strict=True)):
                found[-1] = (Axis(math.prod((before.size, size)), here), reduced)
                continue
        found.append((Axis(size, here), reduced))
    return found
