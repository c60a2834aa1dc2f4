"""Work of a convolution as tables of tasks: who computes what, in which order, with which weights coming next.

Everything here is data for the one kernel in `conv.generator`; nothing of it changes a result, not even its rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.codegen.epilogue import Epilogue
from autofusion_kernels_cpu.conv import generator
from autofusion_kernels_cpu.conv.generator import FIRST, LAST
from autofusion_kernels_cpu.conv.products import TABLE_ENTRY, Structure, entries_summed
from autofusion_kernels_cpu.conv.tiles import Cover, cover


@dataclass(frozen=True, slots=True)
class Plane:
    """A piece of the result with regular rows: one image, one depth, one phase of a transposed convolution.

    Offsets count floats from the first element of the views. `variant` selects the groups' tables and weights.
    """

    input: int
    output: int
    operands: tuple[int, ...]
    rows: int
    pixels: int
    variant: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A filter group: its weights (float offset) and table (int64 [entries, 2]: input offset, k) for each variant.

    `input`, `output` and `operands` are added to the planes' offsets.
    """

    input: int
    weights: tuple[int, ...]
    tables: tuple[np.ndarray, ...]
    bias: int
    output: int
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """How to cut and order the work. `filter_threads` times `plane_threads` threads work.

    `block_pixels > 0`: that many pixels at a time meet all filter groups. Otherwise a filter group meets all pixels
    before the next one, `chunk_floats` of its weights at a time, prefetching what follows.
    """

    filter_threads: int
    plane_threads: int
    block_pixels: int = 0
    chunk_floats: int = 0
    prefetch: bool = False

    @property
    def workers(self) -> int:
        """Threads that work."""
        return self.filter_threads * self.plane_threads


@dataclass(frozen=True, slots=True)
class _Piece:
    plane: Plane
    first_row: int
    rows: int
    first_tile: int
    tiles: int


def parameters(
    structure: Structure,
    epilogue: Epilogue,
    header: Sequence[int],
    groups: Sequence[Group],
    planes: Sequence[Plane],
    schedule: Schedule,
    strides: tuple[int, int, tuple[int, ...]],
    threads: int,
) -> np.ndarray:
    """All parameters of one native step that runs on `threads` threads, some of which may have nothing to do.

    `strides` are the row strides of input, output and operands.
    """
    writer = _Writer(structure, epilogue, strides)
    for thread in range(schedule.workers):
        f, p = divmod(thread, schedule.plane_threads)
        mine = groups[_cut(len(groups), f, schedule.filter_threads) : _cut(len(groups), f + 1, schedule.filter_threads)]
        pieces = _share(structure, planes, p, schedule.plane_threads)
        before = len(writer.tasks)
        if schedule.block_pixels:
            for piece in _blocks(structure, pieces, schedule.block_pixels):
                for group in mine:
                    writer.add(group, [piece], 0)
        else:
            for group in mine:
                writer.add(group, pieces, schedule.chunk_floats)
        writer.link(before, schedule.prefetch)
        writer.end_thread()
    return writer.finish(header, threads)


def staged_parameters(
    structure: Structure,
    epilogue: Epilogue,
    header: Sequence[int],
    groups: Sequence[Group],
    blocks: Sequence[Sequence[tuple[Plane, np.ndarray]]],
    strides: tuple[int, int, tuple[int, ...]],
    threads: int,
) -> np.ndarray:
    """As `parameters`, for the blocks of each working thread: planes, with the lines to copy before."""
    writer = _Writer(structure, epilogue, strides)
    for mine in blocks:
        for plane, lines in mine:
            pieces = _share(structure, [plane], 0, 1)
            for i, group in enumerate(groups):
                writer.add(group, pieces, 0, lines if i == 0 else None)
        writer.end_thread()
    return writer.finish(header, threads)


def _cut(total: int, index: int, parts: int) -> int:
    return total * index // parts


def _cover(structure: Structure, plane: Plane) -> Cover:
    return cover(structure.isa, structure.vectors, plane.pixels, structure.depthwise)


def _tiles(structure: Structure, plane: Plane) -> int:
    return _cover(structure, plane).tiles


def _share(structure: Structure, planes: Sequence[Plane], index: int, parts: int) -> list[_Piece]:
    """One thread's pieces of all planes: whole rows if there are enough of them, tiles otherwise."""
    rows = sum(plane.rows for plane in planes)
    if rows % parts == 0 or rows >= 8 * parts:
        first, last, position, pieces = _cut(rows, index, parts), _cut(rows, index + 1, parts), 0, []
        for plane in planes:
            low, high = max(first - position, 0), min(last - position, plane.rows)
            if low < high:
                pieces.append(_Piece(plane, low, high - low, 0, _tiles(structure, plane)))
            position += plane.rows
        return pieces
    pieces = []
    for plane in planes:
        tiles = _tiles(structure, plane)
        low, high = _cut(tiles, index, parts), _cut(tiles, index + 1, parts)
        if low < high and plane.rows:
            pieces.append(_Piece(plane, 0, plane.rows, low, high - low))
    return pieces


def _blocks(structure: Structure, pieces: Sequence[_Piece], pixels: int) -> list[_Piece]:
    """Pieces of about `pixels` each."""
    made = []
    for piece in pieces:
        width = max(piece.plane.pixels, 1)
        tiles = max(1, round(pixels / max(width / max(_tiles(structure, piece.plane), 1), 1)))
        if piece.tiles > tiles:
            for row in range(piece.rows):
                for tile in range(0, piece.tiles, tiles):
                    count = min(tiles, piece.tiles - tile)
                    made.append(_Piece(piece.plane, piece.first_row + row, 1, piece.first_tile + tile, count))
            continue
        rows = max(1, pixels // width)
        for row in range(0, piece.rows, rows):
            count = min(rows, piece.rows - row)
            made.append(_Piece(piece.plane, piece.first_row + row, count, piece.first_tile, piece.tiles))
    return made


class _Writer:
    """Collects tasks and tables."""

    def __init__(self, structure: Structure, epilogue: Epilogue, strides: tuple[int, int, tuple[int, ...]]) -> None:
        self.structure, self.epilogue = structure, epilogue
        self._lanes = structure.isa.lanes * structure.vectors
        self.input_row, self.output_row, self.operand_rows = strides
        self.tasks: list[list[int]] = []
        # By identity: filter groups with the same input channels share one array.
        self._tables: dict[int, tuple[int, np.ndarray]] = {}
        self._kept: list[np.ndarray] = []
        self._table_parts: list[np.ndarray] = []
        self._table_size = 0
        # k steps, and weights, of each task.
        self._steps: list[int] = []
        # Tasks up to the end of each thread's.
        self._ends = [0]
        self._ranges: list[tuple[int, int]] = []

    def _table(self, table: np.ndarray) -> tuple[int, np.ndarray]:
        """Where the table will lie among the tables, and how many k there are before each entry."""
        if id(table) not in self._tables:
            before = np.concatenate([[0], np.cumsum(table[:, 1])])
            self._tables[id(table)] = (self._table_size, before)
            self._table_parts.append(table.ravel())
            self._kept.append(table)
            self._table_size += table.size
        return self._tables[id(table)]

    def add(self, group: Group, pieces: Sequence[_Piece], chunk_floats: int, stage: np.ndarray | None = None) -> None:
        """Tasks of a group: all pieces for a chunk of the table, then the next chunk. `stage` are the lines that the
        first of them copies.
        """
        first = len(self.tasks)
        lanes = self._lanes
        for variant in dict.fromkeys(piece.plane.variant for piece in pieces):
            table, weights = group.tables[variant], group.weights[variant]
            own = [piece for piece in pieces if piece.plane.variant == variant]
            position, before = self._table(table)
            block = entries_summed(table)
            for start, stop in _chunks(before, -(-chunk_floats // lanes), block):
                flags = (FIRST if start == 0 else 0) | (LAST if stop == len(table) else 0)
                span = (weights + int(before[start]) * lanes, weights + int(before[stop]) * lanes)
                for piece in own:
                    self._task(group, piece, position + start * TABLE_ENTRY, (stop - start, block), flags, span)
        if stage is not None:
            at = generator.TASK.index("stage")
            self.tasks[first][at : at + 2] = [self._table_size, len(stage)]
            self._table_parts.append(stage.ravel())
            self._table_size += stage.size

    def _task(
        self, group: Group, piece: _Piece, table: int, taps: tuple[int, int], flags: int, span: tuple[int, int]
    ) -> None:
        plane, row = piece.plane, piece.first_row
        counts = _cover(self.structure, plane).counts
        starts, tiles, pixel, seen = [], 0, 0, 0
        own: list[int] = []
        for width, count in zip(self.structure.widths, counts, strict=True):
            low = min(max(piece.first_tile - seen, 0), count)
            high = min(max(piece.first_tile + piece.tiles - seen, 0), count)
            starts += [pixel + low * width, high - low]
            if high > low:
                own += [pixel + low * width, min(pixel + high * width, plane.pixels)]
            tiles += high - low
            pixel += count * width
            seen += count
        operands = [
            base + own + row * step
            for base, own, step in zip(plane.operands, group.operands, self.operand_rows, strict=True)
        ]
        self.tasks.append(
            [
                piece.rows,
                plane.input + group.input + row * self.input_row,
                span[0],
                group.bias,
                plane.output + group.output + row * self.output_row,
                table,
                *taps,
                flags,
                plane.pixels,
                own[0],
                own[-1],
                span[0],
                span[0],
                0,
                0,
                0,
                *operands,
                *starts,
            ]
        )
        self._steps.append(max(piece.rows * tiles * (span[1] - span[0]) // self._lanes, 1))
        self._ranges.append(span)

    def link(self, first: int, prefetch: bool) -> None:
        """Let every task since `first` ask for the weights of the one after it."""
        if not prefetch:
            return
        at = generator.TASK.index("prefetch")
        for i in range(first, len(self.tasks) - 1):
            start, stop = self._ranges[i + 1]
            if (start, stop) != self._ranges[i]:
                self.tasks[i][at : at + 3] = [start, stop, round(4 * (stop - start) / self._steps[i])]

    def end_thread(self) -> None:
        """What follows is another thread's."""
        self._ends.append(len(self.tasks))

    def finish(self, header: Sequence[int], threads: int) -> np.ndarray:
        """Header and shares, tasks, tables."""
        base, size = len(header) + 2 * threads, generator.task_size(self.structure, self.epilogue)
        shares = [base + end * size for pair in itertools.pairwise(self._ends) for end in pair]
        head = [*header, *shares, *[base] * (2 * threads - len(shares))]
        tasks = np.array(self.tasks, np.int64)
        if len(tasks):
            for name in ("table", "stage"):
                tasks[:, generator.TASK.index(name)] += len(head) + tasks.size
        return np.concatenate([np.array(head, np.int64), tasks.ravel(), *self._table_parts]).astype(np.int64)


def _chunks(before: np.ndarray, most: int, block: int) -> list[tuple[int, int]]:
    """Ranges of table entries of about `most` k each (0: one range), in whole blocks of entries."""
    entries, total = len(before) - 1, int(before[-1])
    if not most or total <= most or not entries:
        return [(0, entries)]
    parts, blocks = -(-total // most), -(-entries // block)
    cuts = sorted({min(_cut(blocks, i, parts) * block, entries) for i in range(parts + 1)})
    return list(itertools.pairwise(cuts))
