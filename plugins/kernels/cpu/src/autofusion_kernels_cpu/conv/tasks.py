"""Work of a convolution as one table of tasks: who computes what, in which order, with which weights coming next.

A task is a *span* (of a filter group's weights) times a *piece* (of the result). Both are arrays, one entry each, and
the table is their outer product in the order of each thread. Everything here is data for the one kernel in
`conv.kernel`; nothing of it changes a result, not even its rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.conv.kernel import FIRST, LAST, STAGED_LINE, task_type
from autofusion_kernels_cpu.conv.products import TABLE_ENTRY, Structure, entries_summed
from autofusion_kernels_cpu.conv.schedule import Schedule
from autofusion_kernels_cpu.conv.tiles import cover

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Planes:
    """Parts of the result with regular rows: an image, a depth, a phase of a transposed convolution each.

    `input` [n], `output` [n] and `operands` [n, operands] count floats from the first element of the views. `variant`
    selects the groups' tables and weights.
    """

    input: Array
    output: Array
    operands: Array
    rows: Array
    pixels: Array
    variant: Array


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Filter groups. For each variant, `weights` [n, variants] is where their weights begin (in floats) and `table`
    [n, variants] which one of `tables` (int64 [entries, 2]: input offset, k) they walk.

    `input` [n], `output` [n] and `operands` [n, operands] are added to the planes' offsets.
    """

    input: Array
    weights: Array
    table: Array
    tables: Sequence[Array]
    bias: Array
    output: Array
    operands: Array


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Rows and tiles of planes, in the order of the threads that compute them; `part` numbers the thread."""

    part: Array
    plane: Array
    first_row: Array
    rows: Array
    first_tile: Array
    tiles: Array


@dataclass(frozen=True, slots=True)
class RowStrides:
    """Floats between neighbouring rows of input, output and the operands of the epilogue."""

    input: int
    output: int
    operands: tuple[int, ...]


def task_data(
    structure: Structure, groups: Groups, planes: Planes, cut: Schedule, rows: RowStrides, threads: int
) -> Array:
    """The data of one native step that runs on `threads` threads, some of which may have nothing to do."""
    covers = _Covers(structure, planes)
    pieces = _share(planes, covers.tiles, cut.plane_threads)
    if cut.block_pixels:
        pieces = _blocks(planes, covers.tiles, pieces, cut.block_pixels)
    lanes = structure.isa.lanes * structure.vectors
    spans = _Spans(groups, -(-cut.chunk_floats // lanes), lanes)
    order = []
    for thread in range(cut.workers):
        f, p = divmod(thread, cut.plane_threads)
        mine = np.flatnonzero(pieces.part == p)
        group_range = (len(groups.bias) * f // cut.filter_threads, len(groups.bias) * (f + 1) // cut.filter_threads)
        order.append(_ordered(spans, planes.variant[pieces.plane[mine]], mine, group_range, bool(cut.block_pixels)))
    return _written(structure, groups, planes, covers, pieces, spans, order, rows, threads, prefetch=cut.prefetch)


def staged_task_data(
    structure: Structure,
    groups: Groups,
    planes: Planes,
    parts: Array,
    lines: Array,
    line_counts: Array,
    rows: RowStrides,
    threads: int,
) -> Array:
    """As `task_data`, for one thread for each plane (`parts`), which copies some of the `lines` (int64 [n, 3]) before:
    `line_counts` says how many, plane by plane.
    """
    covers = _Covers(structure, planes)
    numbers, zeros = np.arange(len(planes.rows)), np.zeros(len(planes.rows), np.int64)
    pieces = Pieces(parts, numbers, zeros, planes.rows, zeros, covers.tiles)
    spans = _Spans(groups, 0, structure.isa.lanes * structure.vectors)
    everything = (0, len(groups.bias))
    order = []
    for thread in range(int(parts.max()) + 1):
        mine = np.flatnonzero(pieces.part == thread)
        order.append(_ordered(spans, planes.variant[mine], mine, everything, True))
    return _written(structure, groups, planes, covers, pieces, spans, order, rows, threads, lines=(lines, line_counts))


class _Covers:
    """How the rows of each plane are covered by tiles: `counts` [planes, widths], the pixel that each width starts at,
    and all tiles of a row.
    """

    def __init__(self, structure: Structure, planes: Planes) -> None:
        lengths, which = np.unique(planes.pixels, return_inverse=True)
        found = [cover(structure.isa, structure.vectors, int(n), structure.depthwise).counts for n in lengths]
        self.counts = np.array(found, np.int64)[which]
        pixels = self.counts * np.array(structure.widths, np.int64)
        self.start = np.cumsum(pixels, axis=1) - pixels
        self.before = np.cumsum(self.counts, axis=1) - self.counts
        self.tiles = self.counts.sum(axis=1)


class _Spans:
    """Pieces of the groups' tables, as runs of whole blocks: one entry for each group, variant and chunk, in this
    order. `first` [groups, variants + 1] is where those of a group and variant begin.
    """

    def __init__(self, groups: Groups, most: int, lanes: int) -> None:
        """`most` k in a chunk (0: no limit); `lanes` weights of a k."""
        count, variants = groups.table.shape
        cuts, blocks, before = [], [], []
        for table in groups.tables:
            before.append(np.concatenate([[0], np.cumsum(table[:, 1])]))
            blocks.append(entries_summed(table))
            cuts.append(_chunks(before[-1], most, blocks[-1]))
        sizes = np.array([len(c) for c in cuts])[groups.table].reshape(-1)
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        self.variants = variants
        pair = np.repeat(np.arange(count * variants), sizes)
        self.group, self.variant = pair // variants, pair % variants
        self.table = groups.table.reshape(-1)[pair]
        # Which chunk of its table each span is, as an index into the chunks of all tables.
        starts = np.concatenate([[0], np.cumsum([len(c) for c in cuts])])
        at = starts[self.table] + np.arange(len(pair)) - self.first[pair]
        entries = np.array([c for own in cuts for c in own], np.int64).reshape(-1, 2)
        weights = [b[np.array(c)] for b, c in zip(before, cuts, strict=True)]
        k = np.concatenate([np.asarray(w, np.int64).reshape(-1, 2) for w in weights])
        self.entry, self.taps = entries[at, 0], entries[at, 1] - entries[at, 0]
        self.block = np.array(blocks, np.int64)[self.table]
        last = np.array([len(t) for t in groups.tables])[self.table]
        self.flags = np.where(self.entry == 0, FIRST, 0) | np.where(entries[at, 1] == last, LAST, 0)
        base = groups.weights.reshape(-1)[pair]
        self.start, self.stop = base + k[at, 0] * lanes, base + k[at, 1] * lanes


def _chunks(before: Array, most: int, block: int) -> list[tuple[int, int]]:
    """Ranges of table entries of about `most` k each (0: one range), in whole blocks of entries."""
    entries, total = len(before) - 1, int(before[-1])
    if not most or total <= most or not entries:
        return [(0, entries)]
    parts, blocks = -(-total // most), -(-entries // block)
    cuts = sorted({min(blocks * i // parts * block, entries) for i in range(parts + 1)})
    return list(itertools.pairwise(cuts))


def _share(planes: Planes, tiles: Array, parts: int) -> Pieces:
    """The pieces of every thread: whole rows if there are enough of them, tiles otherwise."""
    total = int(planes.rows.sum())
    index = np.arange(parts + 1)[:, None]
    if total % parts == 0 or total >= 8 * parts:
        cuts, end = total * index // parts, np.cumsum(planes.rows)
        begin = end - planes.rows
        low = np.maximum(cuts[:-1] - begin, 0)
        high = np.minimum(cuts[1:] - begin, planes.rows)
        part, plane = np.nonzero(low < high)
        first, size = low[part, plane], (high - low)[part, plane]
        return Pieces(part, plane, first, size, np.zeros_like(part), tiles[plane])
    cuts = tiles * index // parts
    size = np.where(planes.rows > 0, np.diff(cuts, axis=0), 0)
    part, plane = np.nonzero(size)
    return Pieces(part, plane, np.zeros_like(part), planes.rows[plane], cuts[part, plane], size[part, plane])


def _blocks(planes: Planes, tiles: Array, pieces: Pieces, pixels: int) -> Pieces:
    """The pieces cut into some of about `pixels` each: tiles of one row, or whole rows."""
    width = np.maximum(planes.pixels[pieces.plane], 1)
    per_tile = np.maximum(width / np.maximum(tiles[pieces.plane], 1), 1)
    some = np.maximum(np.rint(pixels / per_tile).astype(np.int64), 1)
    split = pieces.tiles > some
    row_step = np.where(split, 1, np.maximum(pixels // width, 1))
    tile_step = np.where(split, some, pieces.tiles)
    across = -(-pieces.tiles // tile_step)
    counts = -(-pieces.rows // row_step) * across
    of = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    row, tile = number // across[of] * row_step[of], number % across[of] * tile_step[of]
    return Pieces(
        pieces.part[of],
        pieces.plane[of],
        pieces.first_row[of] + row,
        np.minimum(row_step[of], pieces.rows[of] - row),
        pieces.first_tile[of] + tile,
        np.minimum(tile_step[of], pieces.tiles[of] - tile),
    )


def _ordered(
    spans: _Spans, variant: Array, pieces: Array, groups: tuple[int, int], pieces_outside: bool
) -> tuple[Array, Array]:
    """(span, piece) of a thread's tasks in order: every piece meets all groups, or every group all pieces, one chunk
    after the other.
    """
    first, last = groups
    if pieces_outside:
        # One chunk for each group and variant.
        own = np.arange(first, last) * spans.variants + variant[:, None]
        return spans.first[own].reshape(-1), np.repeat(pieces, last - first)
    if spans.variants == 1:
        own = np.arange(spans.first[first], spans.first[last])
        return np.repeat(own, len(pieces)), np.tile(pieces, len(own))
    made_spans, made_pieces = [], []
    for group, number in itertools.product(range(first, last), range(spans.variants)):
        chosen = pieces[variant == number]
        pair = group * spans.variants + number
        own = np.arange(spans.first[pair], spans.first[pair + 1])
        made_spans.append(np.repeat(own, len(chosen)))
        made_pieces.append(np.tile(chosen, len(own)))
    return np.concatenate([*made_spans, pieces[:0]]), np.concatenate([*made_pieces, pieces[:0]])


def _written(
    structure: Structure,
    groups: Groups,
    planes: Planes,
    covers: _Covers,
    pieces: Pieces,
    spans: _Spans,
    order: Sequence[tuple[Array, Array]],
    rows: RowStrides,
    threads: int,
    prefetch: bool = False,
    lines: tuple[Array, Array] | None = None,
) -> Array:
    """Shares of the threads, tasks, tables, lines to copy: as int64."""
    span, piece = (np.concatenate([part[i] for part in order]) for i in range(2))
    group, plane, row = spans.group[span], pieces.plane[piece], pieces.first_row[piece]
    type_ = task_type(groups.operands.shape[1], len(structure.widths))
    size, base = type_.itemsize // 8, 2 * threads
    tables_at = base + len(span) * size
    table_at = tables_at + np.cumsum([0, *(table.size for table in groups.tables)])
    tasks = np.zeros(len(span), type_)
    tasks["rows"] = pieces.rows[piece]
    tasks["input"] = planes.input[plane] + groups.input[group] + row * rows.input
    tasks["output"] = planes.output[plane] + groups.output[group] + row * rows.output
    tasks["weights"] = tasks["prefetch"] = tasks["prefetch_end"] = spans.start[span]
    tasks["bias"] = groups.bias[group]
    tasks["table"] = (table_at[spans.table] + spans.entry * TABLE_ENTRY)[span]
    tasks["taps"], tasks["block"], tasks["flags"] = spans.taps[span], spans.block[span], spans.flags[span]
    for i, step in enumerate(rows.operands):
        tasks[f"operand{i}"] = planes.operands[plane, i] + groups.operands[group, i] + row * step
    pixels = planes.pixels[pieces.plane]
    tasks["pixels"] = pixels[piece]
    _write_tiles(tasks, structure, covers, pieces, pixels, piece)
    ends = np.cumsum([0, *(len(part[0]) for part in order)])
    if prefetch and len(span):
        _link(tasks, spans, span, pieces, piece, ends, structure.isa.lanes * structure.vectors)
    if lines is not None:
        counts = lines[1]
        starts = table_at[-1] + (np.cumsum(counts) - counts) * len(STAGED_LINE)
        tasks["stage"], tasks["stage_count"] = starts[piece], np.where(group == 0, counts[piece], 0)
    shares = np.full((threads, 2), base, np.int64)
    shares[: len(order), 0], shares[: len(order), 1] = base + ends[:-1] * size, base + ends[1:] * size
    parts = [shares.ravel(), tasks.view(np.int64), *(table.ravel() for table in groups.tables)]
    return np.concatenate(parts if lines is None else [*parts, lines[0].ravel()])


def _write_tiles(
    tasks: Array, structure: Structure, covers: _Covers, pieces: Pieces, pixels: Array, piece: Array
) -> None:
    """Which tiles of each width a task has, and the pixels that they cover."""
    counts, start = covers.counts[pieces.plane], covers.start[pieces.plane]
    low, high = (
        np.clip(edge[:, None] - covers.before[pieces.plane], 0, counts)
        for edge in (pieces.first_tile, pieces.first_tile + pieces.tiles)
    )
    begin = start + low * np.array(structure.widths)
    end = np.minimum(start + high * np.array(structure.widths), pixels[:, None])
    for i in range(len(structure.widths)):
        tasks[f"start{i}"], tasks[f"count{i}"] = begin[piece, i], (high - low)[piece, i]
    some = high > low
    which, last = some.argmax(axis=1), len(structure.widths) - 1 - some[:, ::-1].argmax(axis=1)
    every = np.arange(len(pixels))
    tasks["begin"], tasks["end"] = begin[every, which][piece], end[every, last][piece]


def _link(tasks: Array, spans: _Spans, span: Array, pieces: Pieces, piece: Array, ends: Array, lanes: int) -> None:
    """Let every task ask for the weights of the one after it of the same thread, if those are others."""
    start, stop = spans.start[span], spans.stop[span]
    steps = np.maximum(pieces.rows[piece] * pieces.tiles[piece] * (stop - start) // lanes, 1)
    following = np.arange(1, len(span) + 1)
    following[ends[1:][ends[1:] > 0] - 1] -= 1  # the last one of a thread has none
    other = (start[following] != start) | (stop[following] != stop)
    pace = np.rint(4 * (stop - start)[following] / steps).astype(np.int64)
    tasks["prefetch"] = np.where(other, start[following], tasks["prefetch"])
    tasks["prefetch_end"] = np.where(other, stop[following], tasks["prefetch_end"])
    tasks["prefetch_step"] = np.where(other, pace, 0)
