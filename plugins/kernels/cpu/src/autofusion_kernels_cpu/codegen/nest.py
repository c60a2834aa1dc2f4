"""Loop nests whose depth, sizes and strides are run-time data: only what the innermost loop does is in the code.

A nest is a list of axes, outermost first. Neighbouring axes that are one for every operand are merged, the innermost
becomes the vector loop, and the others become *rows*: numbered through, shared between the threads, and walked with one
pointer for each operand. So a kernel does not change with the rank or the sizes of its operands.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.values import I64, Type, Value


@dataclass(frozen=True, slots=True)
class Axis:
    """``size`` steps; ``strides`` has, for each operand, the elements between two steps (0: broadcast)."""

    size: int
    strides: tuple[int, ...]


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], rank: int) -> tuple[int, ...]:
    """Strides over the axes of a result of ``rank`` axes: 0 where the operand is broadcast (trailing alignment)."""
    own = tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))
    return (0,) * (rank - len(own)) + own


def collapse(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> list[Axis]:
    """The axes, without those of size 1, neighbours merged where every operand allows it."""
    axes: list[Axis] = []
    for i, size in enumerate(sizes):
        if size == 1:
            continue
        here = tuple(s[i] for s in strides)
        if axes and all(a == b * size for a, b in zip(axes[-1].strides, here, strict=True)):
            axes[-1] = Axis(axes[-1].size * size, here)
        else:
            axes.append(Axis(size, here))
    return axes


def offsets(axes: Sequence[Axis], operands: int) -> np.ndarray:
    """Elements from each operand's start to every combination of steps along ``axes``, int64 [count, operands]."""
    table = np.zeros((1, operands), np.int64)
    for axis in axes:
        steps = np.arange(axis.size)[:, None] * np.array(axis.strides, np.int64).reshape(1, operands)
        table = (table[:, None, :] + steps).reshape(len(table) * axis.size, operands)
    return np.ascontiguousarray(table)


def row_parameters(axes: Sequence[Axis], operands: int, workers: int) -> list[int]:
    """What ``rows`` reads: rows, workers, the innermost axis, number of further axes, their sizes and strides."""
    inner = axes[-1] if axes else Axis(1, (0,) * operands)
    outer = axes[:-1]
    head = [math.prod(a.size for a in axes), workers, inner.size, *inner.strides, len(outer)]
    # Innermost of the outer axes first: that is the order in which a row number is taken apart.
    for axis in reversed(outer):
        head += [axis.size, *axis.strides]
    return head


def head_length(operands: int) -> int:
    """Parameters of ``rows`` that are always there."""
    return 4 + operands


@dataclass(frozen=True, slots=True)
class Row:
    """One row inside ``rows``: its pointers, and its number along the innermost axis."""

    pointers: tuple[Value, ...]
    index: Value


def share(f: Function, total: Value, workers: Value) -> tuple[Value, Value]:
    """This thread's part of 0..total if only the first ``workers`` threads work."""
    active = f.min(f.threads, workers)
    first = f.min(f.thread, active)
    last = f.min(f.thread + 1, active)
    return f.udiv(total * first, active), f.udiv(total * last, active)


@contextlib.contextmanager
def rows(f: Function, pointers: Sequence[Value], elements: Sequence[Type]) -> Iterator[Row]:
    """Walk this thread's rows. ``row_parameters`` are the data behind the kernel's parameters; ``elements`` are the
    operands' element types in memory."""
    count, at = len(pointers), len(f.param)
    table = f.args["params"]

    def parameter(index: int) -> Value:
        return f.load(table, at + index, I64)

    total, workers, inner = parameter(0), parameter(1), parameter(2)
    steps = [parameter(3 + i) for i in range(count)]
    depth = parameter(3 + count)
    axes = f.at(table, at + head_length(count), I64)
    first, last = share(f, total, workers)
    with f.loop(f.udiv(first, inner), f.udiv(last + inner - 1, inner)) as run:
        zero = f.const(0, I64)
        start = run.index * inner
        low, high = f.max(first - start, 0), f.min(last - start, inner)
        with f.loop(0, depth, carry=[run.index, *[zero] * count]) as level:
            number, *offsets = level.carried
            axis = f.at(axes, level.index * (1 + count), I64)
            size = f.load(axis, 0, I64)
            digit = f.urem(number, size)
            moved = [o + digit * f.load(axis, 1 + i, I64) for i, o in enumerate(offsets)]
            level.next(f.udiv(number, size), *moved)
        begin = [
            f.at(p, o + low * s, t) for p, o, s, t in zip(pointers, level.results[1:], steps, elements, strict=True)
        ]
        with f.loop(low, high, carry=begin) as row:
            yield Row(row.carried, row.index)
            row.next(*(f.at(p, s, t) for p, s, t in zip(row.carried, steps, elements, strict=True)))
