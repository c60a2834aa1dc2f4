"""The convolution kernel: an indirect-offset matrix product with a generated epilogue.

    out[o, row, x] = epilogue(bias[o] + sum_t sum_k in[row * in_row + x * pixel + offset[t] + k] * w[t][k][o])

`t` walks a table of (offset, number of k). Kernel taps, dilation, channels, groups, strides, sizes, order of loops,
blocking and the share of each thread are all data; 1x1, 3x3, strided, grouped and transposed convolutions, the stem
that reads a plain image, and the products of a Winograd transform are this one function. The code depends only on
`Structure`.

A *task* is one piece of work of one thread: one group of output channels (`vectors` channel blocks), some rows of
pixels, some entries of the table. A row is covered by register tiles of a few fixed widths; the last tile of a row is
moved left so that it ends with the row, and only stores the pixels that no tile before it has stored, so nothing is
read or written beyond a row. Long sums may be cut in chunks of the table, of whole blocks: all but the first add to
what the output holds, the last adds the bias and applies the epilogue. The order of additions never depends on any of
this. The bias comes last because a sum that starts from a large one is rounded at its size with every addition.

An image without a border around it is *staged*: a task copies the lines that it reads into scratch memory of its
thread, with zeros around them. There they stay in the cache, and no copy of the whole image is made.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.values import I64, Value
from autofusion_kernels_cpu.conv.products import PrefetchCursor, Products, Structure
from autofusion_kernels_cpu.conv.stores import BlockedStore, PlainStore, Store, names
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text

BUFFERS = ("input", "weights", "bias", "output")
"""Buffers before those of the epilogue's operands."""
PARAMS = ("input_row", "output_block", "output_row", "output_line")
"""Parameters (floats) before the block and row stride of each operand of the epilogue. `output_line` is from a row of a
plain result to the next, of which `output_row` skips some.
"""
PLACES = ("input", "output")
"""Fields of a task before one offset for each operand of the epilogue."""
TASK = (
    "rows",
    "weights",
    "prefetch",
    "prefetch_end",
    "prefetch_step",
    "bias",
    "table",
    "taps",
    "block",
    "flags",
    "stage",
    "stage_count",
    "pixels",
    "begin",
    "end",
)
"""Fields of a task between those and (start, count) for each tile width.

All offsets count floats from the start of the buffer but `table`: int64 from the start of the data behind the
parameters. Of its `taps` entries, `block` are summed in one go. `pixels` is the length of a row, of which the task has
those from `begin` to `end`. `stage` counts int64 from the start of the data to `stage_count` lines (STAGED_LINE) to
copy before.
"""
STAGED_LINE = ("source", "target", "length")
"""A line to copy: float offsets in the image and in the input, floats (0: a line of zeros)."""
STAGED_PARAMS = ("line_vectors", "line_low")
"""Parameters of staging, after all others: vectors of a staged line, zeros before its first float."""

FIRST, LAST = 1, 2
"""Flags of a task: it starts the sum, it ends the sum."""


@functools.cache
def task_fields(operands: int, widths: int) -> tuple[str, ...]:
    """The fields of a task, int64 each, for an epilogue of that many operands and that many tile widths."""
    tiles = [f"{field}{i}" for i in range(widths) for field in ("start", "count")]
    return (*PLACES, *(f"operand{i}" for i in range(operands)), *TASK, *tiles)


def kernel(structure: Structure, epilogue: Epilogue) -> Kernel:
    """The convolution of this structure. Its data are (begin, end) of the tasks of each thread, and what they point to;
    these positions count int64 from the start of the data.
    """
    known = epilogue.kernels.get(structure)
    if known is None:
        known = epilogue.kernels[structure] = _kernel(structure, epilogue)
    return known


def _kernel(structure: Structure, epilogue: Epilogue) -> Kernel:
    operands = names(epilogue.kinds)
    strides = [f"{name}.{s}" for name in operands for s in ("block", "row")]
    staged = structure.staged
    return Kernel(
        "conv",
        structure.isa,
        structure_text(structure, epilogue.key),
        (*BUFFERS, *operands, *(("image",) if staged else ())),
        (*PARAMS, *strides, *(STAGED_PARAMS if staged else ())),
        partial(_emit, structure=structure, epilogue=epilogue),
    )


def _emit(f: Function, structure: Structure, epilogue: Epilogue) -> None:
    _Emitter(f, structure, epilogue).tasks()


@dataclass(slots=True)
class _Task:
    """Loaded fields of the task at hand and pointers derived from them."""

    field: dict[str, Value]
    bias: Value
    prefetch_end: Value
    first: Value
    last: Value
    table: Value
    weights: Value
    tiles: list[tuple[Value, Value]]


@dataclass(slots=True)
class _Row:
    """Pointers to the first pixel of a row."""

    input: Value
    output: Value
    operands: list[Value]


class _Emitter:
    def __init__(self, f: Function, structure: Structure, epilogue: Epilogue) -> None:
        self.f, self.s, self.epilogue = f, structure, epilogue
        self.lanes = structure.isa.lanes
        self.data = f.at(f.args["params"], len(f.param), I64)
        self.fields = task_fields(len(epilogue.kinds), len(structure.widths))
        self.products = Products(f, structure)
        self.store: Store = (PlainStore if structure.interleave else BlockedStore)(f, structure, epilogue)

    def tasks(self) -> None:
        f = self.f
        shares = f.at(self.data, f.thread * 2, I64)
        begin, end = f.load(shares, 0, I64), f.load(shares, 1, I64)
        with f.loop(begin, end, step=len(self.fields)) as loop:
            self.task(f.at(self.data, loop.index, I64))

    def task(self, record: Value) -> None:
        f = self.f
        place = {name: i for i, name in enumerate(self.fields)}
        field = {name: f.load(record, place[name], I64) for name in (*PLACES, *TASK)}
        if self.s.staged:
            self.stage(field["stage"], field["stage_count"])
        operands = []
        for name, kind in zip(names(self.epilogue.kinds), self.epilogue.kinds, strict=True):
            base = f.buffer[name]
            if kind is not OperandKind.SCALAR:
                base = f.at(base, f.load(record, place[name], I64))
            operands.append(base)
        tiles = [
            (f.load(record, place[f"start{i}"], I64), f.load(record, place[f"count{i}"], I64))
            for i in range(len(self.s.widths))
        ]
        task = _Task(
            field,
            f.at(f.buffer["bias"], field["bias"]),
            f.at(f.buffer["weights"], field["prefetch_end"]),
            f.ne(field["flags"] & FIRST, 0),
            f.ne(field["flags"] & LAST, 0),
            f.at(self.data, field["table"], I64),
            f.at(f.buffer["weights"], field["weights"]),
            tiles,
        )
        row_steps = [
            f.param[f"operand{i}.row"] if kind is OperandKind.TENSOR else f.const(0, I64)
            for i, kind in enumerate(self.epilogue.kinds)
        ]
        start = [
            f.at(f.buffer["input"], field["input"]),
            f.at(f.buffer["output"], field["output"]),
            *operands,
            f.at(f.buffer["weights"], field["prefetch"]),
        ]
        with f.loop(0, field["rows"], carry=start, opaque=True) as rows:
            prefetch = rows.carried[-1]
            row = _Row(rows.carried[0], rows.carried[1], list(rows.carried[2:-1]))
            for i, width in enumerate(self.s.widths):
                prefetch = self.tiles(task, row, i, width, prefetch)
            self.store.row(row.output, row.operands, field["begin"], field["end"])
            rows.next(
                f.at(row.input, f.param["input_row"]),
                f.at(row.output, f.param["output_row"]),
                *(f.at(p, step) for p, step in zip(row.operands, row_steps, strict=True)),
                prefetch,
            )

    def stage(self, first: Value, count: Value) -> None:
        """Copy lines of the image to where the tiles read them, with zeros before and after."""
        f, lanes = self.f, self.lanes
        vectors, low = f.param["line_vectors"], f.param["line_low"]
        with f.loop(0, count, carry=[f.at(self.data, first, I64)], opaque=True) as lines:
            (line,) = lines.carried
            source = f.at(f.buffer["image"], f.load(line, 0, I64) - low)
            target = f.at(f.buffer["input"], f.load(line, 1, I64))
            length = f.load(line, 2, I64)
            end = f.select(f.eq(length, 0), 0, low + length)
            whole = f.udiv(low + (lanes - 1), lanes)
            rest = f.max(f.udiv(end, lanes), whole)

            def part(start: Value, stop: Value, masked: bool) -> None:
                with f.loop(start, stop) as vector:
                    i = vector.index * lanes
                    mask = f.tail_mask(end - i) & ~f.tail_mask(low - i) if masked else None
                    f.store(f.load(source, i, mask=mask), target, i)

            part(f.const(0, I64), whole, True)
            part(whole, rest, False)
            part(rest, vectors, True)
            lines.next(f.at(line, len(STAGED_LINE), I64))

    def tiles(self, task: _Task, row: _Row, index: int, width: int, prefetch: Value) -> Value:
        """All tiles of one width in a row."""
        f = self.f
        start, count = task.tiles[index]
        with f.loop(0, count, carry=[prefetch], opaque=True) as loop:
            wanted = start + loop.index * width
            x = f.min(wanted, task.field["pixels"] - width)
            skip = wanted - x
            output = f.at(row.output, x * self.s.output_pixel)
            operands = [
                f.at(p, x * self.s.output_pixel) if kind is OperandKind.TENSOR else p
                for p, kind in zip(row.operands, self.epilogue.kinds, strict=True)
            ]
            with f.when(~task.first):
                self.products.spill(self.store.resumed(output, width))
            pixels = f.at(row.input, x * self.s.pixel)
            cursor = PrefetchCursor(loop.carried[0], task.prefetch_end, task.field["prefetch_step"])
            entries, block = task.field["taps"], task.field["block"]
            sums, reached = self.products.sums(
                task.table, entries, block, task.weights, pixels, width, task.first, cursor
            )
            sums = f.branch(task.last, lambda sums=sums: self.shifted(sums, task), lambda sums=sums: sums)
            self.store.tile(sums, width, output, operands, skip, task.last)
            loop.next(reached)
        return loop.results[0]

    def shifted(self, sums: list[Value], task: _Task) -> list[Value]:
        """Complete sums with the bias."""
        vectors = [self.f.load(task.bias, o * self.lanes) for o in range(self.s.vectors)]
        return [value + vectors[i % self.s.vectors] for i, value in enumerate(sums)]
