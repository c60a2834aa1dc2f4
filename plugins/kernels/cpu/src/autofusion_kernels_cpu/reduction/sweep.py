"""Passes over the elements that are reduced together, for programs that do not care how these lie in memory.

Two forms. *Along*: the reduced elements are contiguous, a vector holds several of them, and totals are combined across
lanes. *Across*: neighbouring lanes belong to neighbouring results, the reduced elements are a stride apart, and a lane
keeps its own total. In both, a row has ``outer`` pieces whose offsets come from a table, and a piece has ``length``
elements; several accumulators hide latency. Totals come out in every lane that they concern, so programs are written
once::

    (total,) = sweep.reduce(["add"], lambda at, sums: [sums[0] + at.value(x)])[part]
    sweep.each(lambda at: at.store(y, at.value(x) / total))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Value as GraphValue
from autofusion_kernels_cpu.codegen import elements
from autofusion_kernels_cpu.codegen.builder import Function, Loop
from autofusion_kernels_cpu.codegen.values import I64, Operandish, Type, Value

VECTOR, SCALAR = "vector", "scalar"
ADD, MUL, MAX, MIN = "add", "mul", "max", "min"
PEAK = "peak"
"""Maximum that ignores NaN where it is not the only value: for shifts, which NaN passes by in another way."""


BLOCK = 32
"""Steps after which partial sums are added to the total."""


def identity(kind: str, type_: Type) -> float | int:
    """What an accumulator starts from."""
    if kind in (ADD, MUL):
        return int(kind == MUL)
    if type_.is_float:
        return np.inf if kind == MIN else -np.inf
    low = -(1 << (type_.bits - 1))
    return ~low if kind == MIN else low


def merge(f: Function, kind: str, a: Value, b: Value) -> Value:
    """Two accumulators as one. For ``peak``, ``a`` may be NaN and is then ignored."""
    if kind == ADD:
        return a + b
    if kind == MUL:
        return a * b
    if kind == PEAK:
        return f.max_keep(a, b)
    return f.max(a, b) if kind == MAX else f.min(a, b)


def across_lanes(f: Function, kind: str, vector: Value) -> Value:
    """All lanes combined, in every lane; always in the same order."""
    step = vector.type.lanes // 2
    while step:
        vector = merge(f, kind, vector, f.shuffle(vector, None, [i ^ step for i in range(vector.type.lanes)]))
        step //= 2
    return vector


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A value that lies in memory: read (a leaf) or written (a result)."""

    value: GraphValue
    dtype: np.dtype
    kind: str


@dataclass(frozen=True, slots=True)
class At:
    """One vector of elements during a pass: what body functions get."""

    f: Function
    pointers: Sequence[Value]
    operands: Sequence[Operand]
    index: Operandish
    scalars: dict[int, Value]
    mask: Value | None
    position: Value
    """Number of the element along the reduced axes, counted in the piece, in every lane (i32)."""

    def load(self, number: int) -> Value:
        """Operand ``number`` here."""
        if number in self.scalars:
            return self.scalars[number]
        operand = self.operands[number]
        return elements.load(self.f, operand.dtype, self.pointers[number], self.index, self.f.lanes, self.mask)

    def store(self, number: int, value: Value) -> None:
        """Write operand ``number`` here."""
        elements.store(self.f, self.operands[number].dtype, value, self.pointers[number], self.index, self.mask)


Body = Callable[[At, int, tuple[Value, ...]], Sequence[Value] | None]
"""(place, part, accumulators) -> accumulators."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """The elements of one row. ``parts`` vectors of results are made together (1 along, several across).

    ``table`` has, for each of the ``outer`` pieces, the offset of every operand in elements. ``steps`` are, across, the
    operands' strides between two elements of a piece. ``masks`` are, across, the lanes of each part that exist.
    """

    f: Function
    operands: Sequence[Operand]
    pointers: Sequence[Value]
    table: Value
    outer: Value
    length: Value
    steps: Sequence[Value] = ()
    masks: Sequence[Value | None] = (None,)
    along: bool = True
    unroll: int = 4

    @property
    def parts(self) -> int:
        """Vectors of results."""
        return len(self.masks)

    def count(self) -> Value:
        """How many elements are reduced, as a float32 in every lane."""
        return self.f.splat(self.f.convert(self.outer * self.length, self.f.f32.element), self.f.lanes)

    def reduce(
        self, kinds: Sequence[str], body: Body, types: Sequence[Type] = (), unroll: int = 0
    ) -> list[list[Value]]:
        """Totals of ``kinds`` for each part; ``body`` adds one vector to the accumulators, of ``types`` (float32).

        ``unroll`` accumulators take turns: 1 is enough where the body takes longer than an addition.
        """
        f, unroll = self.f, unroll or self.unroll
        types = types or [f.f32] * len(kinds)
        fresh = [f.const(identity(k, t), t) for k, t in zip(kinds, types, strict=True)]
        width = len(kinds) * self.parts
        results = self._pieces(fresh * self.parts * unroll, body, len(kinds), unroll, kinds)
        totals = list(results[:width])
        for u in range(1, unroll):
            for i in range(width):
                totals[i] = merge(f, kinds[i % len(kinds)], results[u * width + i], totals[i])
        if self.along:
            totals = [across_lanes(f, k, t) for k, t in zip(kinds, totals, strict=True)]
        return [totals[p * len(kinds) : (p + 1) * len(kinds)] for p in range(self.parts)]

    def each(self, body: Callable[[At, int], None]) -> None:
        """Run ``body`` for every vector of elements."""
        self._pieces([], lambda at, part, sums: body(at, part), 0, 1)

    def fold(self, start: Sequence[Value], body: Body) -> list[Value]:
        """Accumulators through all vectors in order, without unrolling and without combining lanes."""
        return list(self._pieces(list(start) * self.parts, body, len(start), 1))

    # --- loops --------------------------------------------------------------------------------------------------------
    def _pieces(
        self, start: list[Value], body: Body, count: int, unroll: int, kinds: Sequence[str] = ()
    ) -> tuple[Value, ...]:
        f = self.f
        with f.loop(0, self.outer, carry=start) as piece:
            offsets = f.at(self.table, piece.index * len(self.operands), I64)
            pointers = [
                f.at(p, f.load(offsets, i, I64), elements.memory_type(o.dtype))
                for i, (p, o) in enumerate(zip(self.pointers, self.operands, strict=True))
            ]
            run = self._along if self.along else self._across
            piece.next(*run(pointers, piece.carried, body, count, unroll, kinds))
        return piece.results

    def _walk(
        self,
        start: Operandish,
        stop: Value,
        step: int,
        moving: Sequence[Value],
        sums: Sequence[Value],
        kinds: Sequence[str],
        inside: Callable[[Loop], None],
    ) -> tuple[Value, ...]:
        """A loop that carries pointers and accumulators.

        Sums are taken in blocks: rounding errors then grow with the number of blocks, not of elements.
        """
        f = self.f
        if ADD not in kinds and MUL not in kinds:
            with f.loop(start, stop, step=step, carry=[*moving, *sums]) as loop:
                inside(loop)
            return loop.results
        fresh = [f.const(identity(kinds[i % len(kinds)], v.type), v.type) for i, v in enumerate(sums)]
        with f.loop(start, stop, step=step * BLOCK, carry=[*moving, *sums]) as block:
            end = f.min(block.index + step * BLOCK, stop)
            with f.loop(block.index, end, step=step, carry=[*block.carried[: len(moving)], *fresh]) as loop:
                inside(loop)
            here, own = loop.results[: len(moving)], loop.results[len(moving) :]
            merged = [
                merge(f, kinds[i % len(kinds)], a, b)
                for i, (a, b) in enumerate(zip(own, block.carried[len(moving) :], strict=True))
            ]
            block.next(*here, *merged)
        return block.results

    def _along(
        self,
        pointers: list[Value],
        sums: tuple[Value, ...],
        body: Body,
        count: int,
        unroll: int,
        kinds: Sequence[str],
    ) -> tuple[Value, ...]:
        f = self.f
        scalars = {
            i: elements.broadcast(f, o.dtype, p, 0, f.lanes)
            for i, (o, p) in enumerate(zip(self.operands, pointers, strict=True))
            if o.kind == SCALAR
        }
        lanes = f.iota(f.lanes)

        def place(index: Value, mask: Value | None) -> At:
            position = f.splat(f.convert(index, lanes.type.element), f.lanes) + lanes
            return At(f, pointers, self.operands, index, scalars, mask, position)

        def several(loop: Loop) -> None:
            following: list[Value] = []
            for u in range(unroll):
                own = loop.carried[u * count : (u + 1) * count]
                following += body(place(loop.index + u * f.lanes, None), 0, own) or ()
            loop.next(*following)

        def one(loop: Loop) -> None:
            loop.next(*(body(place(loop.index, None), 0, loop.carried) or ()))

        whole = self.length & -f.lanes
        done = self.length & -(f.lanes * unroll) if unroll > 1 else f.const(0, I64)
        if unroll > 1:
            sums = self._walk(0, done, f.lanes * unroll, (), sums, kinds, several)
        first = self._walk(done, whole, f.lanes, (), sums[:count], kinds, one)

        def rest() -> list[Value]:
            mask = f.tail_mask(self.length - whole)
            new = body(place(whole, mask), 0, first) or ()
            return [f.select(mask, a, b) for a, b in zip(new, first, strict=True)]

        first = tuple(f.branch(whole < self.length, rest, lambda: list(first)))
        return (*first, *sums[count:])

    def _across(
        self,
        pointers: list[Value],
        sums: tuple[Value, ...],
        body: Body,
        count: int,
        unroll: int,
        kinds: Sequence[str],
    ) -> tuple[Value, ...]:
        f, width, number = self.f, count * self.parts, len(pointers)
        types = [elements.memory_type(o.dtype) for o in self.operands]

        def step(here: Sequence[Value], position: Value, own: Sequence[Value]) -> list[Value]:
            scalars = {
                i: elements.broadcast(f, o.dtype, p, 0, f.lanes)
                for i, (o, p) in enumerate(zip(self.operands, here, strict=True))
                if o.kind == SCALAR
            }
            where = f.splat(f.convert(position, f.i32.element), f.lanes)
            following: list[Value] = []
            for part, mask in enumerate(self.masks):
                at = At(f, here, self.operands, part * f.lanes, scalars, mask, where)
                following += body(at, part, tuple(own[part * count : (part + 1) * count])) or ()
            return following

        def moved(here: Sequence[Value], times: int) -> list[Value]:
            return [f.at(p, s * times, t) for p, s, t in zip(here, self.steps, types, strict=True)]

        def several(loop: Loop) -> None:
            here, following = loop.carried[:number], []
            for u in range(unroll):
                own = loop.carried[number + u * width : number + (u + 1) * width]
                following += step(moved(here, u), loop.index + u, own)
            loop.next(*moved(here, unroll), *following)

        def one(loop: Loop) -> None:
            here = loop.carried[:number]
            loop.next(*moved(here, 1), *step(here, loop.index, loop.carried[number:]))

        done = self.length - f.urem(self.length, unroll) if unroll > 1 else f.const(0, I64)
        moving: Sequence[Value] = pointers
        if unroll > 1:
            results = self._walk(0, done, unroll, moving, sums, kinds, several)
            moving, sums = results[:number], results[number:]
        results = self._walk(done, self.length, 1, moving, sums[:width], kinds, one)
        return (*results[number:], *sums[width:])
