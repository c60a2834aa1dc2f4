"""The convolution kernel: an indirect-offset matrix product with a generated epilogue.

    out[o, row, x] = epilogue(bias[o] + sum_t sum_k in[row * in_row + x * pixel + offset[t] + k] * w[t][k][o])

`t` walks a table of (offset, number of k). Kernel taps, dilation, channels, groups, strides, sizes, order of loops,
blocking and the share of each thread are all data; 1x1, 3x3, strided, grouped and transposed convolutions, the stem
that reads a plain image, and the products of a Winograd transform are this one function. The code depends only on
`Structure`.

A *task* is one piece of work of one thread: one group of output channels (`vectors` channel blocks), some rows of
pixels, some entries of the table. A row is covered by register tiles of a few fixed widths; the last tile of a row is
moved left so that it ends with the row, and only stores the pixels that no tile before it has stored, so nothing is
read or written beyond a row. Long sums may be cut in chunks of the table: the first chunk starts from the bias, others
from what the output holds, the last applies the epilogue. The order of additions never depends on any of this.

The k loop is the hot block: `vectors` loads of weights, one broadcast a pixel, `width * vectors` FMAs, nothing else.
Its trip count is data, which also keeps LLVM from unrolling it into a block that its scheduler would spill.

Weights are read strictly in order, so what comes next is known: each pass over the table also prefetches a part of the
next task's weights, spread evenly.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import F32, I64, PTR, Value
from autofusion_kernels_cpu.native.jit import jit

BUFFERS = ("input", "weights", "bias", "output")
"""Buffers before those of the epilogue's operands."""
PARAMS = ("input_row", "output_block", "output_row")
"""Parameters (floats) before the block and row stride of each operand of the epilogue."""
TASK = (
    "rows",
    "input",
    "weights",
    "bias",
    "output",
    "table",
    "taps",
    "flags",
    "pixels",
    "prefetch",
    "prefetch_end",
    "prefetch_step",
)
"""Fields of a task before one offset for each operand of the epilogue and (start, count) for each tile width.

All offsets count floats from the buffer's start but `table`, which counts int64 from the start of the parameters.
"""
FIRST, LAST = 1, 2
"""Flags of a task: it starts the sum, it ends the sum."""
TABLE_ENTRY = 2
"""int64 for each entry of the table: offset in floats, number of k."""


@dataclass(frozen=True, slots=True)
class Structure:
    """What the machine code depends on, besides the epilogue.

    `pixel` and `output_pixel` are the floats between neighbouring output pixels in the input and in the output;
    `vectors` the channel blocks of a tile; `widths` the tile widths, widest first. `depthwise` is 0, or the number of
    neighbouring taps of an entry of the table if every channel has a filter of its own: then weight vectors meet input
    vectors instead of broadcasts, and `vectors` is 1.
    """

    isa: Isa
    pixel: int
    output_pixel: int
    vectors: int
    widths: tuple[int, ...]
    depthwise: int = 0


_addresses: dict[tuple[Structure, str], int] = {}
_lock = threading.Lock()


def kernel(structure: Structure, epilogue: Epilogue) -> int:
    """The address of the kernel, compiled or loaded on first use."""
    key = (structure, epilogue.key)
    with _lock:
        if key not in _addresses:
            _addresses[key] = jit().kernel(module(structure, epilogue))
        return _addresses[key]


def header_size(epilogue: Epilogue) -> int:
    """int64 parameters before the table of tasks for each thread."""
    return len(PARAMS) + 2 * len(epilogue.kinds)


def task_size(structure: Structure, epilogue: Epilogue) -> int:
    """int64 of a task."""
    return len(TASK) + len(epilogue.kinds) + 2 * len(structure.widths)


def module(structure: Structure, epilogue: Epilogue) -> Module:
    """The IR of the kernel."""
    m = Module(structure.isa)
    count = len(epilogue.kinds)
    strides = [f"operand{i}.{s}" for i in range(count) for s in ("block", "row")]
    with m.kernel("conv", [*BUFFERS, *map(_operand_name, range(count))], [*PARAMS, *strides]) as f:
        emitter = _Emitter(f, structure, epilogue)
        emitter.tasks()
    return m


def _operand_name(index: int) -> str:
    return f"operand{index}"


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
        self.spill = f.stack(max(structure.widths) * structure.vectors * self.lanes)
        self.blocks = [f.param[f"operand{i}.block"] for i in range(len(epilogue.kinds))]
        self.store_pixels = self._store_pixels(f.module)

    def _store_pixels(self, module: Module) -> Function:
        """A function that takes a tile from memory and stores its pixels from `skip` on, through the epilogue.

        For moved tiles and heavy epilogues. A function, because one copy serves all widths.
        """
        count = len(self.epilogue.kinds)
        names = ["tile", "output", *map(_operand_name, range(count))]
        numbers = ["skip", "width", "last", "output_block", *(f"block{i}" for i in range(count))]
        g = module.function("store_pixels", [(n, PTR) for n in names] + [(n, I64) for n in numbers])
        vectors = list(range(self.s.vectors))
        with g, g.loop(g.args["skip"], g.args["width"]) as loop:
            here = g.at(g.args["tile"], loop.index * (self.s.vectors * self.lanes))
            place = loop.index * self.s.output_pixel
            _store(
                g,
                self.epilogue,
                [g.load(here, o * self.lanes) for o in vectors],
                [(o, place) for o in vectors],
                g.ne(g.args["last"], 0),
                g.args["output"],
                g.args["output_block"],
                [g.args[_operand_name(i)] for i in range(count)],
                [g.args[f"block{i}"] for i in range(count)],
            )
        return g

    def tasks(self) -> None:
        f = self.f
        shares = f.at(self.params, f.thread * 2 + header_size(self.epilogue), I64)
        begin, end = f.load(shares, 0, I64), f.load(shares, 1, I64)
        with f.loop(begin, end, step=task_size(self.s, self.epilogue)) as loop:
            self.task(f.at(self.params, loop.index, I64))

    def task(self, record: Value) -> None:
        f = self.f
        field = {name: f.load(record, i, I64) for i, name in enumerate(TASK)}
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
            rows.next(
                f.at(row.input, f.param["input_row"]),
                f.at(row.output, f.param["output_row"]),
                *(f.at(p, step) for p, step in zip(row.operands, row_steps, strict=True)),
                prefetch,
            )

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
            initial = f.branch(
                task.first,
                lambda: self.biases(task, width),
                lambda: [f.load(self.out(output, o), x * self.s.output_pixel) for x, o in self.elements(width)],
            )
            sums, ahead = self.sums(task, f.at(row.input, x * self.s.pixel), width, initial, loop.carried[0])
            self.finish(task, width, sums, output, operands, skip)
            loop.next(ahead)
        return loop.results[0]

    def elements(self, width: int) -> list[tuple[int, int]]:
        """(pixel, vector) of the accumulators, in order."""
        return [(x, o) for x in range(width) for o in range(self.s.vectors)]

    def out(self, output: Value, vector: int) -> Value:
        return self.f.at(output, self.f.param["output_block"] * vector)

    def biases(self, task: _Task, width: int) -> list[Value]:
        vectors = [self.f.load(task.bias, o * self.lanes) for o in range(self.s.vectors)]
        return vectors * width

    def sums(
        self, task: _Task, pixels: Value, width: int, initial: list[Value], prefetch: Value
    ) -> tuple[list[Value], Value]:
        """The accumulators after all entries of the task's table, and the prefetch pointer."""
        f, s = self.f, self.s
        with f.loop(0, task.field["taps"], carry=[task.table, task.weights, prefetch, *initial], opaque=True) as taps:
            entry, weights, ahead, *values = taps.carried
            source = f.at(pixels, f.load(entry, 0, I64))
            length = f.load(entry, 1, I64)
            more = ahead if s.depthwise else self.prefetch(task, ahead)
            if s.depthwise:
                values = self.depthwise_products(weights, source, values)
                weights = f.at(weights, s.depthwise * self.lanes)
            else:
                weights, *values = self.products(weights, source, length, width, values)
            taps.next(f.at(entry, TABLE_ENTRY, I64), weights, more, *values)
        return list(taps.results[3:]), taps.results[2]

    def products(self, weights: Value, source: Value, length: Value, width: int, values: list[Value]) -> list[Value]:
        """The hot loop: every k of a table entry. Returns the advanced weights pointer and the accumulators."""
        f, s = self.f, self.s
        with f.loop(0, length, carry=[weights, source, *values], at_least_once=True, opaque=True) as ks:
            w, x, *acc = ks.carried
            columns = [f.load(w, o * self.lanes) for o in range(s.vectors)]
            result = []
            for i in range(width):
                value = f.broadcast(x, i * s.pixel)
                for o in range(s.vectors):
                    result.append(f.fma(value, columns[o], acc[i * s.vectors + o]))
            ks.next(f.at(w, s.vectors * self.lanes), f.at(x, 1), *result)
        return [ks.results[0], *ks.results[2:]]

    def depthwise_products(self, weights: Value, source: Value, values: list[Value]) -> list[Value]:
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

    def prefetch(self, task: _Task, pointer: Value) -> Value:
        """Ask for the next few cache lines of what comes next, if there is any left."""
        f = self.f
        left = f.ult(pointer, task.prefetch_end)
        step = f.select(left, task.field["prefetch_step"], 0)
        with f.loop(0, step, step=16, opaque=True) as lines:
            f.prefetch(f.at(pointer, lines.index), locality=2)
        return f.at(pointer, step)

    def finish(
        self, task: _Task, width: int, sums: list[Value], output: Value, operands: list[Value], skip: Value
    ) -> None:
        """Epilogue and store: in registers, or through memory for a moved tile or a heavy epilogue."""
        f = self.f
        elements = self.elements(width)

        def through_memory() -> None:
            for value, (x, o) in zip(sums, elements, strict=True):
                f.store(value, self.spill, (x * self.s.vectors + o) * self.lanes)
            last = task.field["flags"] & LAST
            numbers = [skip, f.const(width, I64), last, f.param["output_block"], *self.blocks]
            f.call(self.store_pixels, self.spill, output, *operands, *numbers)

        def in_registers() -> None:
            places = [(o, f.const(x * self.s.output_pixel, I64)) for x, o in elements]
            block = f.param["output_block"]
            _store(f, self.epilogue, sums, places, task.last, output, block, operands, self.blocks)

        if self.epilogue.is_light:
            f.branch(f.eq(skip, 0), in_registers, through_memory)
        else:
            through_memory()


def _store(
    f: Function,
    epilogue: Epilogue,
    values: list[Value],
    places: list[tuple[int, Value]],
    last: Value,
    output: Value,
    output_block: Value,
    operands: list[Value],
    blocks: list[Value],
) -> None:
    """Store sums at (vector, offset from the tile's first pixel), through the epilogue if the sum is complete."""

    def operand(index: int, vector: int, offset: Value) -> Value:
        kind = epilogue.kinds[index]
        if kind is OperandKind.SCALAR:
            return f.broadcast(operands[index], 0, F32)
        block = f.at(operands[index], blocks[index] * vector)
        return f.load(block, offset if kind is OperandKind.TENSOR else 0)

    def finished() -> list[Value]:
        return [
            epilogue.emit(f, value, lambda i, o=o, offset=offset: operand(i, o, offset))  # type: ignore[misc]
            for value, (o, offset) in zip(values, places, strict=True)
        ]

    if epilogue.nodes:
        values = f.branch(last, finished, lambda: values)
    for value, (o, offset) in zip(values, places, strict=True):
        f.store(value, f.at(output, output_block * o), offset)
