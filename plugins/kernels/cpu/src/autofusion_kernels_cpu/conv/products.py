"""The hot loops of convolutions: the sums of a register tile, walked along a table of input offsets.

The k loop is `vectors` loads of weights, one broadcast a pixel, `width * vectors` FMAs, one prefetch. Its trip count is
data, which also keeps LLVM from unrolling it into a block that its scheduler would spill.

Long sums are taken in blocks of the table, each of which starts from zero, so that rounding errors do not grow with the
length: a chain of hundreds of additions of one sign loses a digit. Partial sums of the blocks before are spilled to the
stack.

Weights are read strictly in order, so what comes next is known: each k asks for a few bytes more of what follows, so
that it is there when its turn comes. Spread like this it costs nothing; in bursts it holds up the loads behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I32, I64, Value

TABLE_ENTRY = 2
"""int64 for each entry of the table: offset in floats, number of k."""
LINE = 16
"""float32 in a cache line."""
SUMMED = 64
"""k that are summed in one go, at least; less than twice as many."""


def entries_summed(table: np.ndarray) -> int:
    """Entries of each block of a table (int64 [entries, 2]) that is summed in one go."""
    blocks = max(1, int(table[:, 1].sum()) // SUMMED)
    return max(1, -(-len(table) // blocks))


@dataclass(frozen=True, slots=True)
class Interleave:
    """Channels, rows and columns of a plain result that the lanes of one sum stand for, in this order."""

    channels: int
    rows: int
    columns: int

    @property
    def lanes(self) -> int:
        return self.channels * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Structure:
    """What the machine code of a tile depends on.

    `pixel` and `output_pixel` are the floats between neighbouring output pixels in the input and in the output;
    `vectors` the channel blocks of a tile; `widths` the tile widths, widest first. `depthwise` is 0, or the number of
    neighbouring taps of an entry of the table if every channel has a filter of its own: then weight vectors meet input
    vectors instead of broadcasts, and `vectors` is 1. With `interleave`, too, `vectors` is 1, and the result is plain.
    With `staged`, tasks copy the lines that they read into scratch memory first. With `masked`, lanes do not all read
    the same channels and taps, and weights whose bits are all zero stand for those that a lane does not read.
    """

    isa: Isa
    pixel: int
    output_pixel: int
    vectors: int
    widths: tuple[int, ...]
    depthwise: int = 0
    interleave: Interleave | None = None
    staged: bool = False
    masked: bool = False


@dataclass(frozen=True, slots=True)
class PrefetchCursor:
    """Weights to prefetch: from `pointer` up to `end`, `step` bytes further with each k."""

    pointer: Value
    end: Value
    step: Value


class Products:
    """Emits the sums of tiles into a function."""

    def __init__(self, f: Function, structure: Structure) -> None:
        self.f, self.s = f, structure
        self.lanes = structure.isa.lanes
        self.spilled = f.stack(max(structure.widths) * structure.vectors * self.lanes)

    def spill(self, values: list[Value]) -> None:
        """Store partial sums on the stack; the next ones are added to them."""
        for i, value in enumerate(values):
            self.f.store(value, self.spilled, i * self.lanes)

    def sums(
        self,
        table: Value,
        entries: Value,
        block: Value,
        weights: Value,
        pixels: Value,
        width: int,
        from_zero: Value,
        cursor: PrefetchCursor,
    ) -> tuple[list[Value], Value]:
        """The sums (`width` pixels outside, vectors inside) over all entries of the table, `block` of them in one go,
        and how far prefetching has come. `pixels` points to the tile's first pixel. They are added to what was
        `spill`ed unless they start `from_zero`.
        """
        f = self.f
        zeros = [f.zero] * (width * self.s.vectors)
        with f.loop(0, entries, step=block, carry=[table, weights, cursor.pointer, *zeros], opaque=True) as blocks:
            part = PrefetchCursor(blocks.carried[2], cursor.end, cursor.step)
            count = f.min(entries - blocks.index, block)
            entry, columns, reached, *values = self._block(
                blocks.carried[0], count, blocks.carried[1], pixels, list(blocks.carried[3:]), part
            )
            first = f.eq(blocks.index, 0) & from_zero

            def added(values: list[Value] = values) -> list[Value]:
                return [v + f.load(self.spilled, i * self.lanes) for i, v in enumerate(values)]

            values = f.branch(first, lambda values=values: values, added)
            more = f.lt(blocks.index + block, entries)

            def spill_partial_sums(values: list[Value] = values) -> list[Value]:
                self.spill(values)
                return zeros

            values = f.branch(more, spill_partial_sums, lambda values=values: values)
            blocks.next(entry, columns, reached, *values)
        return list(blocks.results[3:]), blocks.results[2]

    def _block(
        self, table: Value, entries: Value, weights: Value, pixels: Value, initial: list[Value], cursor: PrefetchCursor
    ) -> list[Value]:
        """Every entry of a block. Returns the advanced pointers to table, weights and prefetching, and accumulators."""
        f, s = self.f, self.s
        start = [table, weights, cursor.pointer, *initial]
        with f.loop(0, entries, carry=start, at_least_once=True, opaque=True) as taps:
            entry, columns, reached, *values = taps.carried
            source = f.at(pixels, f.load(entry, 0, I64))
            if s.depthwise:
                values = self._depthwise(columns, source, values)
                columns = f.at(columns, s.depthwise * self.lanes)
            else:
                step = f.select(f.ult(reached, cursor.end), cursor.step, 0)
                columns, reached, *values = self._dense(
                    columns, source, f.load(entry, 1, I64), values, PrefetchCursor(reached, cursor.end, step)
                )
            taps.next(f.at(entry, TABLE_ENTRY, I64), columns, reached, *values)
        return list(taps.results)

    def _dense(
        self, weights: Value, source: Value, length: Value, values: list[Value], cursor: PrefetchCursor
    ) -> list[Value]:
        """Every k of a table entry. Returns the advanced weights and prefetch pointers and the accumulators."""
        f, s = self.f, self.s
        start = [weights, source, cursor.pointer, *values]
        with f.loop(0, length, carry=start, at_least_once=True, opaque=True) as ks:
            w, x, reached, *acc = ks.carried
            columns = [f.load(w, o * self.lanes) for o in range(s.vectors)]
            own = [f.ne(f.bitcast(column, I32), 0) for column in columns] if s.masked else [None] * s.vectors
            f.prefetch(reached, locality=2)
            result = []
            for i in range(len(acc) // s.vectors):
                value = f.broadcast(x, i * s.pixel)
                for o in range(s.vectors):
                    result.append(self._sum(value, columns[o], acc[i * s.vectors + o], own[o]))
            ks.next(f.at(w, s.vectors * self.lanes), f.at(x, 1), f.at(reached, cursor.step, I8), *result)
        return [ks.results[0], *ks.results[2:]]

    def _sum(self, value: Value, column: Value, acc: Value, own: Value | None) -> Value:
        """The accumulator with the product added, where the lanes are their `own`: elsewhere `value` may be NaN."""
        f = self.f
        if own is None:
            return f.fma(value, column, acc)
        if f.isa.name == "avx512":  # the mask costs nothing there
            return f.select(own, f.fma(value, column, acc), acc)
        return f.fma(f.select(own, value, 0.0), column, acc)

    def _depthwise(self, weights: Value, source: Value, values: list[Value]) -> list[Value]:
        """One row of taps: each input vector is loaded once and meets all the taps that see it."""
        f, s = self.f, self.s
        acc = list(values)
        columns = [f.load(weights, j * self.lanes) for j in range(s.depthwise)]
        meets: dict[int, list[tuple[int, int]]] = {}
        for i in range(len(acc)):
            for j in range(s.depthwise):
                meets.setdefault(i * s.pixel + j * self.lanes, []).append((i, j))
        for offset, pairs in sorted(meets.items()):
            value = f.load(source, offset)
            for i, j in pairs:
                acc[i] = f.fma(value, columns[j], acc[i])
        return acc
