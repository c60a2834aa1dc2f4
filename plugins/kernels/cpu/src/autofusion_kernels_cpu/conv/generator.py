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

import threading
from dataclasses import dataclass

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.values import I64, Value
from autofusion_kernels_cpu.conv.products import Ahead, Products, Structure
from autofusion_kernels_cpu.conv.stores import BlockedStore, PlainStore, Store, names
from autofusion_kernels_cpu.native.jit import jit

BUFFERS = ("input", "weights", "bias", "output")
"""Buffers before those of the epilogue's operands."""
PARAMS = ("input_row", "output_block", "output_row", "output_line")
"""Parameters (floats) before the block and row stride of each operand of the epilogue. `output_line` is from a row of a
plain result to the next, of which `output_row` skips some.
"""
TASK = (
    "rows",
    "input",
    "weights",
    "bias",
    "output",
    "table",
    "taps",
    "block",
    "flags",
    "pixels",
    "begin",
    "end",
    "prefetch",
    "prefetch_end",
    "prefetch_step",
    "stage",
    "stage_count",
)
"""Fields of a task before one offset for each operand of the epilogue and (start, count) for each tile width.

All offsets count floats from the start of the buffer but `table`: int64 from the start of the parameters. Of its
`taps` entries, `block` are summed in one go. `pixels` is the length of a row, of which the task has those from `begin`
to `end`. `stage` counts int64 from the start of the parameters to `stage_count` lines (STAGED_LINE) to copy before.
"""
STAGED_LINE = ("source", "target", "length")
"""A line to copy: float offsets in the image and in the input, floats (0: a line of zeros)."""
STAGED_PARAMS = ("line_vectors", "line_low")
"""Parameters of staging, after all others: vectors of a staged line, zeros before its first float."""

FIRST, LAST = 1, 2
"""Flags of a task: it starts the sum, it ends the sum."""
_addresses: dict[tuple[Structure, str], int] = {}
_lock = threading.Lock()


def kernel(structure: Structure, epilogue: Epilogue) -> int:
    """The address of the kernel, compiled or loaded on first use."""
    key = (structure, epilogue.key)
    with _lock:
        if key not in _addresses:
            _addresses[key] = jit().kernel(module(structure, epilogue))
        return _addresses[key]


def header_size(structure: Structure, epilogue: Epilogue) -> int:
    """int64 parameters before the table of tasks for each thread."""
    return len(PARAMS) + 2 * len(epilogue.kinds) + (len(STAGED_PARAMS) if structure.staged else 0)


def task_size(structure: Structure, epilogue: Epilogue) -> int:
    """int64 of a task."""
    return len(TASK) + len(epilogue.kinds) + 2 * len(structure.widths)


def module(structure: Structure, epilogue: Epilogue) -> Module:
    """The IR of the kernel."""
    m = Module(structure.isa)
    operands = names(epilogue.kinds)
    strides = [f"{name}.{s}" for name in operands for s in ("block", "row")]
    buffers, params = [*BUFFERS, *operands], [*PARAMS, *strides]
    if structure.staged:
        buffers, params = [*buffers, "image"], [*params, *STAGED_PARAMS]
    with m.kernel("conv", buffers, params) as f:
        emitter = _Emitter(f, structure, epilogue)
        emitter.tasks()
    return m


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
        self.params = f.args["params"]
        self.products = Products(f, structure)
        self.store: Store = (PlainStore if structure.interleave else BlockedStore)(f, structure, epilogue)

    def tasks(self) -> None:
        f = self.f
        shares = f.at(self.params, f.thread * 2 + header_size(self.s, self.epilogue), I64)
        begin, end = f.load(shares, 0, I64), f.load(shares, 1, I64)
        with f.loop(begin, end, step=task_size(self.s, self.epilogue)) as loop:
            self.task(f.at(self.params, loop.index, I64))

    def task(self, record: Value) -> None:
        f = self.f
        field = {name: f.load(record, i, I64) for i, name in enumerate(TASK)}
        if self.s.staged:
            self.stage(field["stage"], field["stage_count"])
        position = len(TASK)
        operands = []
        for i, kind in enumerate(self.epilogue.kinds):
            base = f.buffer[f"operand{i}"]
            if kind is not OperandKind.SCALAR:
                base = f.at(base, f.load(record, position + i, I64))
            operands.append(base)
        position += len(operands)
        tiles = []
        for i in range(len(self.s.widths)):
            tiles.append((f.load(record, position + 2 * i, I64), f.load(record, position + 2 * i + 1, I64)))
        task = _Task(
            field,
            f.at(f.buffer["bias"], field["bias"]),
            f.at(f.buffer["weights"], field["prefetch_end"]),
            f.ne(field["flags"] & FIRST, 0),
            f.ne(field["flags"] & LAST, 0),
            f.at(self.params, field["table"], I64),
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
        with f.loop(0, count, carry=[f.at(self.params, first, I64)], opaque=True) as lines:
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
                self.products.wait(self.store.resumed(output, width))
            pixels = f.at(row.input, x * self.s.pixel)
            ahead = Ahead(loop.carried[0], task.prefetch_end, task.field["prefetch_step"])
            entries, block = task.field["taps"], task.field["block"]
            sums, reached = self.products.sums(
                task.table, entries, block, task.weights, pixels, width, task.first, ahead
            )
            sums = f.branch(task.last, lambda sums=sums: self.shifted(sums, task), lambda sums=sums: sums)
            self.store.tile(sums, width, output, operands, skip, task.last)
            loop.next(reached)
        return loop.results[0]

    def shifted(self, sums: list[Value], task: _Task) -> list[Value]:
        """Complete sums with the bias."""
        vectors = [self.f.load(task.bias, o * self.lanes) for o in range(self.s.vectors)]
        return [value + vectors[i % self.s.vectors] for i, value in enumerate(sums)]
