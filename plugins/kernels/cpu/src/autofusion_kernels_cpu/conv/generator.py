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
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.values import F32, I64, PTR, Value
from autofusion_kernels_cpu.conv.products import Ahead, Products, Structure
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
        self.products = Products(f, structure)
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
            pixels = f.at(row.input, x * self.s.pixel)
            ahead = Ahead(loop.carried[0], task.prefetch_end, task.field["prefetch_step"])
            sums, reached = self.products.sums(task.table, task.field["taps"], task.weights, pixels, initial, ahead)
            self.finish(task, width, sums, output, operands, skip)
            loop.next(reached)
        return loop.results[0]

    def elements(self, width: int) -> list[tuple[int, int]]:
        """(pixel, vector) of the accumulators, in order."""
        return [(x, o) for x in range(width) for o in range(self.s.vectors)]

    def out(self, output: Value, vector: int) -> Value:
        return self.f.at(output, self.f.param["output_block"] * vector)

    def biases(self, task: _Task, width: int) -> list[Value]:
        vectors = [self.f.load(task.bias, o * self.lanes) for o in range(self.s.vectors)]
        return vectors * width

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


def operand_vector(f: Function, kind: OperandKind, pointer: Value, offset: Value) -> Value:
    """The vector of an epilogue's operand for the pixel at `offset`; `pointer` is at its channel block."""
    if kind is OperandKind.SCALAR:
        return f.broadcast(pointer, 0, F32)
    return f.load(pointer, offset if kind is OperandKind.TENSOR else 0)


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
        kind, pointer = epilogue.kinds[index], operands[index]
        if kind is not OperandKind.SCALAR:
            pointer = f.at(pointer, blocks[index] * vector)
        return operand_vector(f, kind, pointer, offset)

    def finished() -> list[Value]:
        return [
            epilogue.emit(f, value, lambda i, o=o, offset=offset: operand(i, o, offset))  # type: ignore[misc]
            for value, (o, offset) in zip(values, places, strict=True)
        ]

    if epilogue.nodes:
        values = f.branch(last, finished, lambda: values)
    for value, (o, offset) in zip(values, places, strict=True):
        f.store(value, f.at(output, output_block * o), offset)
