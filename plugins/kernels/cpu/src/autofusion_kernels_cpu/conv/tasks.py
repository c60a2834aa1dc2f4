"""Work of a convolution as one table of tasks: who computes what, in which order, with which weights coming next.

Every field of a task is the sum of what a *span* (of a filter group's weights) and a *piece* (of the result) say of it,
and those of a piece are again sums over planes, rows and tiles: the table is an outer sum of a few short arrays, in the
order of each thread. Everything here is data for the one kernel in `conv.kernel`; nothing of it changes a result, not
even its rounding.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.conv.kernel import FIRST, LAST, STAGED_LINE, task_fields
from autofusion_kernels_cpu.conv.products import TABLE_ENTRY, Structure, entries_summed
from autofusion_kernels_cpu.conv.schedule import Schedule
from autofusion_kernels_cpu.conv.tiles import cover, widths

Array = np.ndarray
_NONE = -1
"""Flags of what is not a task."""


@dataclass(frozen=True, slots=True, eq=False)
class Planes:
    """Parts of the result with regular rows, all of one size: every image and depth (of a phase).

    `offsets` [n, 2 + operands] are those of input, output and the epilogue's operands, in floats from the first element
    of the views.
    """

    offsets: Array
    rows: int
    pixels: int


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Filter groups. For each phase, `weights` [n, phases] is where their weights begin (in floats) and `table`
    [n, phases] which one of `tables` (int64 [entries, 2]: input offset, k) they walk.

    `offsets` [n, 2 + operands] are added to the planes'; `bias` [n] counts floats. `templates` is kept by groups of
    equal weights, bias and tables, but for the tables' offsets.
    """

    offsets: Array
    weights: Array
    table: Array
    tables: Sequence[Array]
    bias: Array
    templates: dict[tuple[int, ...], Array]

    def __len__(self) -> int:
        return len(self.bias)


@dataclass(frozen=True, slots=True)
class _Slab:
    """Neighbouring planes of a phase, some rows and tiles of each."""

    phase: int
    planes: slice
    first_row: int
    rows: int
    first_tile: int
    tiles: int


def task_data(
    structure: Structure, groups: Groups, planes: Sequence[Planes], cut: Schedule, row: Array, threads: int
) -> Array:
    """The data of one native step that runs on `threads` threads, some of which may have nothing to do.

    `planes` has one entry for each phase; `row` [2 + operands] are the strides of rows of input, output and operands.
    """
    writer = _Writer(structure, groups, cut.chunk_floats, threads)
    shares = _shares(planes, [_all_tiles(structure, p.pixels) for p in planes], cut.plane_threads)
    pieces = [
        [(slab.phase, writer.pieces(planes[slab.phase], slab, row, cut.block_pixels)) for slab in slabs]
        for slabs in shares
    ]
    parts = []
    for thread in range(cut.workers):
        f, p = divmod(thread, cut.plane_threads)
        own = slice(len(groups) * f // cut.filter_threads, len(groups) * (f + 1) // cut.filter_threads)
        tasks = [writer.tasks(writer.spans(phase)[own], each, bool(cut.block_pixels)) for phase, each in pieces[p]]
        parts.append(tasks[0] if len(tasks) == 1 else np.concatenate([writer.none, *tasks]))
        writer.link(parts[-1], cut.prefetch)
    return writer.finish(parts)


def staged_task_data(
    structure: Structure,
    groups: Groups,
    planes: Planes,
    rows: Array,
    parts: Array,
    lines: Array,
    line_counts: Array,
    threads: int,
) -> Array:
    """As `task_data`, for one thread for each plane (`parts`, ascending), which has `rows` of it and copies some of the
    `lines` (int64 [n, 3]) before: `line_counts` says how many, plane by plane.
    """
    writer = _Writer(structure, groups, 0, threads)
    everything = _Slab(0, slice(None), 0, planes.rows, 0, _all_tiles(structure, planes.pixels))
    pieces = writer.pieces(planes, everything, np.zeros(planes.offsets.shape[1], np.int64), 0)
    pieces[:, writer.column["rows"]] = rows
    pieces[:, writer.column["stage"]] = (np.cumsum(line_counts) - line_counts) * len(STAGED_LINE)
    pieces[:, writer.column["stage_count"]] = line_counts
    spans = writer.spans(0)
    made = []
    for thread in range(int(parts[-1]) + 1):
        own = pieces[parts == thread]
        tasks = writer.tasks(spans, own, True)
        tasks = tasks.reshape(len(own), len(groups), tasks.shape[-1])  # a thread may have no plane
        # The lines are copied before the first group.
        tasks[:, 1:, writer.column["stage_count"]] = 0
        made.append(tasks.reshape(-1, tasks.shape[-1]))
    return writer.finish(made, lines)


def _all_tiles(structure: Structure, pixels: int) -> int:
    return cover(structure.isa, structure.vectors, pixels, structure.depthwise).tiles


# --- shares of threads ------------------------------------------------------------------------------------------------
def _shares(planes: Sequence[Planes], tiles: Sequence[int], parts: int) -> list[list[_Slab]]:
    """What every thread has: whole rows if there are enough of them, tiles otherwise."""
    total = sum(len(each.offsets) * each.rows for each in planes)
    if total % parts == 0 or total >= 8 * parts:
        cuts = [total * i // parts for i in range(parts + 1)]
        return [list(_row_slabs(planes, tiles, first, last)) for first, last in itertools.pairwise(cuts)]
    made = []
    for part in range(parts):
        slabs = []
        for phase, each in enumerate(planes):
            first, last = tiles[phase] * part // parts, tiles[phase] * (part + 1) // parts
            if first < last and each.rows:
                slabs.append(_Slab(phase, slice(None), 0, each.rows, first, last - first))
        made.append(slabs)
    return made


def _row_slabs(planes: Sequence[Planes], tiles: Sequence[int], first: int, last: int) -> Iterator[_Slab]:
    """Rows `first` to `last` of all planes, one after the other."""
    for phase, each in enumerate(planes):
        count = len(each.offsets) * each.rows
        low, high = max(first, 0), min(last, count)
        while low < high:
            plane, row = divmod(low, each.rows)
            whole = 1 if row else (high - low) // each.rows
            rows = min(each.rows - row, high - low)
            yield _Slab(phase, slice(plane, plane + max(whole, 1)), row, rows, 0, tiles[phase])
            low += rows * max(whole, 1)
        first, last = first - count, last - count


# --- tiles ------------------------------------------------------------------------------------------------------------
@functools.lru_cache(2048)
def _row_tiles(isa: Isa, vectors: int, pixels: int, depthwise: int) -> tuple[Array, Array, Array]:
    """(counts of each width, tiles before them, the pixel that they start at) of a row."""
    counts = np.array(cover(isa, vectors, pixels, depthwise).counts, np.int64)
    covered = counts * np.array(widths(isa, vectors, depthwise))
    return counts, np.cumsum(counts) - counts, np.cumsum(covered) - covered


@functools.lru_cache(1024)
def _tile_fields(isa: Isa, vectors: int, pixels: int, depthwise: int, first: int, last: int, step: int) -> Array:
    """[ranges, fields]: length of the row, first and last pixel, (start, count) of every width, of the ranges of `step`
    tiles from `first` to `last`.
    """
    whole = cover(isa, vectors, pixels, depthwise)
    if first == 0 and last == whole.tiles <= step:
        fields, start = [pixels, 0, pixels], 0
        for width, count in zip(widths(isa, vectors, depthwise), whole.counts, strict=True):
            fields += [start, count]
            start += width * count
        return np.array([fields], np.int64)
    counts, before, start = _row_tiles(isa, vectors, pixels, depthwise)
    sizes = np.array(widths(isa, vectors, depthwise))
    edges = np.array([*range(first, last, step), last], np.int64)[:, None]
    low, high = (np.minimum(np.maximum(each - before, 0), counts) for each in (edges[:-1], edges[1:]))
    begin, end = start + low * sizes, np.minimum(start + high * sizes, pixels)
    some = high > low
    made = np.empty((len(edges) - 1, 3 + 2 * len(sizes)), np.int64)
    made[:, 0] = pixels
    made[:, 1], made[:, 2] = np.where(some, begin, pixels).min(axis=1), np.where(some, end, 0).max(axis=1)
    made[:, 3::2], made[:, 4::2] = begin, high - low
    return made


def _cuts(structure: Structure, planes: Planes, slab: _Slab, pixels: int) -> tuple[range, range]:
    """Where pieces of about `pixels` each (0: one piece) begin: rows, and tiles of a row."""
    rows, tiles = (slab.first_row, slab.first_row + slab.rows), (slab.first_tile, slab.first_tile + slab.tiles)
    if not pixels:
        return range(*rows, max(slab.rows, 1)), range(*tiles, max(slab.tiles, 1))
    width = max(planes.pixels, 1)
    some = max(1, round(pixels / max(width / max(_all_tiles(structure, planes.pixels), 1), 1)))
    if slab.tiles > some:
        return range(*rows), range(*tiles, some)
    return range(*rows, max(1, pixels // width)), range(*tiles, max(slab.tiles, 1))


@functools.cache
def _columns(fields: tuple[str, ...]) -> dict[str, int]:
    return {name: i for i, name in enumerate(fields)}


class _Writer:
    """Arrays of fields, for one structure and its groups."""

    def __init__(self, structure: Structure, groups: Groups, chunk_floats: int, threads: int) -> None:
        self._structure, self._groups, self._threads = structure, groups, threads
        self._lanes = structure.isa.lanes * structure.vectors
        self._most = -(-chunk_floats // self._lanes)
        self._offsets = groups.offsets.shape[1]
        fields = task_fields(self._offsets - 2, len(structure.widths))
        self.column = _columns(fields)
        self.none = np.zeros((0, len(fields)), np.int64)
        self._table_at = [0, *itertools.accumulate(table.size for table in groups.tables)]
        self._spans: dict[int, Array] = {}

    def pieces(self, planes: Planes, slab: _Slab, row: Array, block_pixels: int) -> Array:
        """[pieces, fields]: planes outside, then rows, then tiles. Nothing of the groups."""
        rows, ranges = _cuts(self._structure, planes, slab, block_pixels)
        first = np.array([*rows, rows.stop], np.int64)
        offsets = planes.offsets[slab.planes]
        made = np.zeros((len(offsets), len(rows), len(ranges), len(self.column)), np.int64)
        made[..., : self._offsets] = offsets[:, None, None] + (first[:-1, None] * row)[:, None]
        made[..., self.column["rows"]] = (first[1:] - first[:-1])[:, None]
        s = self._structure
        # Not by the range itself: ranges are equal that end in different places.
        places = (ranges.start, ranges.stop, ranges.step)
        tiles = _tile_fields(s.isa, s.vectors, planes.pixels, s.depthwise, *places)
        made[..., len(self.column) - tiles.shape[1] :] = tiles
        return made.reshape(-1, len(self.column))

    def tasks(self, spans: Array, pieces: Array, pieces_outside: bool) -> Array:
        """Tasks [n, fields] of spans [groups, chunks, fields] and pieces: every piece meets all groups, or every group
        all pieces, one chunk after the other.
        """
        flat = spans.reshape(-1, spans.shape[-1])
        outer, inner = (pieces, flat) if pieces_outside else (flat, pieces)
        made = (outer[:, None] + inner).reshape(-1, spans.shape[-1])
        flags = made[:, self.column["flags"]]
        return made[flags != _NONE] if flags.min(initial=0) == _NONE else made

    def spans(self, phase: int) -> Array:
        """[groups, chunks, fields]: nothing of the pieces. `table` counts from the first table."""
        if phase not in self._spans:
            key = (phase, self._most, len(self.column))
            template = self._groups.templates.get(key)
            if template is None:
                template = self._groups.templates[key] = self._template(phase)
            made = template.copy()
            made[..., : self._offsets] = self._groups.offsets[:, None]
            self._spans[phase] = made
        return self._spans[phase]

    def _template(self, phase: int) -> Array:
        """The spans without the groups' offsets."""
        groups, column = self._groups, self.column
        number = groups.table[:, phase]
        used = dict.fromkeys(number.tolist())
        # Tables of one step are of one shape, but for groups of channels that straddle blocks in other ways.
        chunks = {n: _chunks(groups.tables[n], self._most) for n in used}
        most = max(len(each) for each in chunks.values())
        fields = np.zeros((len(groups.tables), most, len(column)), np.int64)
        for n, each in chunks.items():
            own = fields[n]
            # A table of fewer chunks ends in some that are none: `tasks` drops them.
            table = np.array([*each, *[(0, 0, 0, 0, _NONE)] * (most - len(each))], np.int64)
            own[:, column["table"]] = self._table_at[n] + table[:, 0] * TABLE_ENTRY
            own[:, column["taps"]], own[:, column["flags"]] = table[:, 1], table[:, 4]
            own[:, column["block"]] = entries_summed(groups.tables[n])
            own[:, column["weights"]], own[:, column["prefetch_end"]] = table[:, 2], table[:, 3]
            own[:, column["weights"] : column["prefetch_end"] + 1] *= self._lanes
            own[:, column["prefetch"]] = own[:, column["weights"]]
        made = fields[number]
        made[..., column["bias"]] += groups.bias[:, None]
        start = column["weights"]
        made[..., start : start + 3] += groups.weights[:, phase, None, None]
        return made

    def link(self, tasks: Array, prefetch: bool) -> None:
        """With `prefetch`, let every task of a thread ask for the weights of the one after it, if those are others."""
        if not prefetch:
            tasks[:, self.column["prefetch_end"]] = tasks[:, self.column["prefetch"]]
            return
        start, stop = tasks[:-1, self.column["weights"]], tasks[:-1, self.column["prefetch_end"]]
        following, end = tasks[1:, self.column["weights"]], tasks[1:, self.column["prefetch_end"]].copy()
        tiles = tasks[:-1, self.column["count0"] :: 2].sum(axis=1)
        steps = np.maximum(tasks[:-1, self.column["rows"]] * tiles * (stop - start) // self._lanes, 1)
        other = (following != start) | (end != stop)
        pace = np.rint(4 * (end - following) / steps).astype(np.int64)
        tasks[:-1, self.column["prefetch_step"]] = np.where(other, pace, 0)
        tasks[:-1, self.column["prefetch"]] = np.where(other, following, start)
        tasks[:-1, self.column["prefetch_end"]] = np.where(other, end, start)
        tasks[-1:, self.column["prefetch_end"]] = tasks[-1:, self.column["weights"]]

    def finish(self, parts: Sequence[Array], lines: Array | None = None) -> Array:
        """Shares of the threads, tasks, tables, lines to copy: as int64, with positions from the start."""
        tasks = parts[0] if len(parts) == 1 else np.concatenate(parts)
        base, size = 2 * self._threads, len(self.column)
        tables_at = base + tasks.size
        tasks[:, self.column["table"]] += tables_at
        ends = [base, *(base + size * end for end in itertools.accumulate(map(len, parts)))]
        shares = [place for pair in itertools.pairwise(ends) for place in pair]
        shares += [base] * (base - len(shares))
        made = [shares, tasks.ravel(), *(table.ravel() for table in self._groups.tables)]
        if lines is not None:
            tasks[:, self.column["stage"]] += tables_at + self._table_at[-1]
            made.append(lines.ravel())
        return np.concatenate(made)


def _chunks(table: Array, most: int) -> list[tuple[int, int, int, int, int]]:
    """Runs of entries of about `most` k each (0: one run), in whole blocks: (first entry, entries, k before the first,
    k up to the end, flags).
    """
    entries = len(table)
    before = [0, *np.cumsum(table[:, 1]).tolist()]
    block = entries_summed(table)
    cuts = [0, entries]
    if most and before[-1] > most and entries:
        parts, blocks = -(-before[-1] // most), -(-entries // block)
        cuts = sorted({min(blocks * i // parts * block, entries) for i in range(parts + 1)})
    return [
        (a, b - a, before[a], before[b], (FIRST if a == 0 else 0) | (LAST if b == entries else 0))
        for a, b in itertools.pairwise(cuts)
    ]
