"""The Winograd kernel: input transform, products and output transform of one block of tiles after another.

Each thread works on blocks of its own, in scratch memory of its own that stays in the second-level cache, so a layer
needs no synchronisation inside. For a block of tiles:

1. every tile is transformed, all channels: V[plane][channel block][tile][lane], one plane for each of the
   (m + 2) x (m + 2) points;
2. for each group of output channels: one matrix product a plane (`products.Products`, a tile is a pixel) gives
   M[plane][vector][tile][lane], and the output transform adds bias and epilogue and stores.

Sizes, strides, borders, edges, images and the cut into blocks are data: a table of tiles, a table of tasks. The code
depends on `Structure` and the epilogue only. An edge tile reads zeros from the border and stores fewer pixels.

The transforms go through a small array on the stack, one dimension at a time, because a whole tile does not fit the
registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I1, I64, PTR, Value
from autofusion_kernels_cpu.conv import products
from autofusion_kernels_cpu.conv.products import PrefetchCursor, Products
from autofusion_kernels_cpu.conv.stores import names as names_of
from autofusion_kernels_cpu.conv.stores import operand_vector
from autofusion_kernels_cpu.conv.tiles import widths
from autofusion_kernels_cpu.conv.winograd.transforms import multiply, transforms
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text

BUFFERS = ("input", "weights", "bias", "output", "scratch", "seen")
"""Buffers before those of the epilogue's operands.

`seen` has a vector for each thread, in which NaN appears if a sum is not finite: what is not finite in a tile's input,
or overflows on the way, ends up in pixels that do not depend on it.
"""
PARAMS = (
    "input_row",
    "input_block",
    "channel_blocks",
    "v_block",
    "v_plane",
    "m_block",
    "m_plane",
    "thread_scratch",
    "m_start",
    "entries",
    "block",
    "table",
    "tiles",
    "output_row",
    "output_block",
)
"""Parameters before block and row stride of each operand and (floats of a plane's weights, prefetch step) of each
number of vectors. `entries`, `block` and `table` are the products' table (of offsets in V), `tiles` is where tiles are
described; both count int64 from the start of the data. Prefetch steps are in bytes, all else is in floats or a
count.
"""
TILE = ("input", "output", "rows", "columns")
"""Fields of a tile before one offset for each operand: offsets in floats, rows and columns to store."""
TASK = ("first_tile", "tile_count")
"""Fields of a task before GROUPS and one (start, count) for each tile width, for each number of vectors."""
GROUPS = ("groups", "first_block", "weights")


@dataclass(frozen=True, slots=True)
class Structure:
    """`tile` outputs a side; `vectors` are the sizes in channel blocks that groups of output channels have."""

    isa: Isa
    tile: int
    vectors: tuple[int, ...]

    @property
    def side(self) -> int:
        """Inputs a side of a tile, and points a dimension."""
        return self.tile + 2

    def widths(self, vectors: int) -> tuple[int, ...]:
        """Widths of the products' register tiles."""
        return widths(self.isa, vectors)


def names(structure: Structure, epilogue: Epilogue) -> list[str]:
    """All parameters, in order."""
    operands = [f"operand{i}.{s}" for i in range(len(epilogue.kinds)) for s in ("block", "row")]
    return [*PARAMS, *operands, *(f"{p}{v}" for v in structure.vectors for p in ("weights_plane", "prefetch"))]


def tile_size(epilogue: Epilogue) -> int:
    """int64 of a tile's description."""
    return len(TILE) + len(epilogue.kinds)


def task_size(structure: Structure) -> int:
    """int64 of a task."""
    return len(TASK) + sum(len(GROUPS) + 2 * len(structure.widths(v)) for v in structure.vectors)


def kernel(structure: Structure, epilogue: Epilogue) -> Kernel:
    """The convolution of this structure. Its data are (begin, end) of the tasks of each thread, and what they point to;
    these positions count int64 from the start of the data.
    """
    return Kernel(
        "winograd",
        structure.isa,
        structure_text(structure, epilogue.key),
        (*BUFFERS, *names_of(epilogue.kinds)),
        tuple(names(structure, epilogue)),
        partial(_emit, structure=structure, epilogue=epilogue),
    )


def _emit(f: Function, structure: Structure, epilogue: Epilogue) -> None:
    _Emitter(f, structure, epilogue).tasks()


class _Emitter:
    def __init__(self, f: Function, structure: Structure, epilogue: Epilogue) -> None:
        self.f, self.s, self.epilogue = f, structure, epilogue
        self.lanes = structure.isa.lanes
        self.names = names(structure, epilogue)
        self.data = f.at(f.args["params"], len(self.names), I64)
        self.transform_input = self._transform_input(f.module)
        self.transform_output = self._transform_output(f.module)

    def _parameter(self, g: Function, name: str) -> Value:
        return g.load(g.args["params"], self.names.index(name), I64)

    def tasks(self) -> None:
        f = self.f
        shares = f.at(self.data, f.thread * 2, I64)
        scratch = f.at(f.buffer["scratch"], f.thread * f.param["thread_scratch"])
        with f.loop(f.load(shares, 0, I64), f.load(shares, 1, I64), step=task_size(self.s)) as loop:
            self.task(f.at(self.data, loop.index, I64), scratch)

    def task(self, record: Value, scratch: Value) -> None:
        f = self.f
        first, count = f.load(record, 0, I64), f.load(record, 1, I64)
        tiles = f.at(self.data, f.param["tiles"] + first * tile_size(self.epilogue), I64)
        f.call(self.transform_input, f.args["params"], tiles, f.buffer["input"], scratch, count)
        position = len(TASK)
        for vectors in self.s.vectors:
            self.groups(vectors, f.at(record, position, I64), tiles, count, scratch)
            position += len(GROUPS) + 2 * len(self.s.widths(vectors))

    def groups(self, vectors: int, record: Value, tiles: Value, count: Value, scratch: Value) -> None:
        """All groups of `vectors` channel blocks: products and output transform."""
        f = self.f
        plane = f.param[f"weights_plane{vectors}"]
        weights = f.at(f.buffer["weights"], f.load(record, GROUPS.index("weights"), I64))
        block = f.load(record, GROUPS.index("first_block"), I64)
        groups = f.load(record, GROUPS.index("groups"), I64)
        m = f.at(scratch, f.param["m_start"])
        with f.loop(0, groups, carry=[weights, block], opaque=True) as loop:
            weights, block = loop.carried
            self.planes(vectors, f.at(record, len(GROUPS), I64), weights, count, scratch, m)
            self.outputs(vectors, tiles, count, block, m)
            loop.next(f.at(weights, plane * self.s.side**2), block + vectors)

    def planes(self, vectors: int, cover: Value, weights: Value, count: Value, v: Value, m: Value) -> None:
        """The matrix products of every plane: M = V U."""
        f = self.f
        shape = products.Structure(self.s.isa, self.lanes, self.lanes, vectors, self.s.widths(vectors))
        emitter = Products(f, shape)
        table = f.at(self.data, f.param["table"], I64)
        plane, step = f.param[f"weights_plane{vectors}"], f.param[f"prefetch{vectors}"]
        with f.loop(0, self.s.side**2, carry=[weights, v, m], opaque=True) as loop:
            weights, v, m = loop.carried
            following = f.at(weights, plane)
            end = f.at(following, plane)
            reached = following
            for i, width in enumerate(shape.widths):
                start, tiles = f.load(cover, 2 * i, I64), f.load(cover, 2 * i + 1, I64)
                with f.loop(0, tiles, carry=[reached], opaque=True) as inner:
                    # The last one is moved left to end with the block: it computes some results again.
                    x = f.min(start + inner.index * width, count - width) * self.lanes
                    cursor = PrefetchCursor(inner.carried[0], end, step)
                    entries, block, from_zero = f.param["entries"], f.param["block"], f.const(1, I1)
                    sums, reached = emitter.sums(table, entries, block, weights, f.at(v, x), width, from_zero, cursor)
                    target = f.at(m, x)
                    for o in range(vectors):
                        row = f.at(target, f.param["m_block"] * o)
                        for p in range(width):
                            f.store(sums[p * vectors + o], row, p * self.lanes)
                    inner.next(reached)
                reached = inner.results[0]
            loop.next(following, f.at(v, f.param["v_plane"]), f.at(m, f.param["m_plane"]))

    def outputs(self, vectors: int, tiles: Value, count: Value, block: Value, m: Value) -> None:
        """The output transform of every tile of the block, for one group."""
        f = self.f
        bias = f.at(f.buffer["bias"], block * self.lanes)
        output = f.at(f.buffer["output"], block * f.param["output_block"])
        bases = [
            f.buffer[f"operand{i}"]
            if kind is OperandKind.SCALAR
            else f.at(f.buffer[f"operand{i}"], block * f.param[f"operand{i}.block"])
            for i, kind in enumerate(self.epilogue.kinds)
        ]
        seen = f.at(f.buffer["seen"], f.thread * self.lanes)
        f.call(
            self.transform_output, f.args["params"], tiles, m, bias, output, *bases, seen, count, f.const(vectors, I64)
        )

    def _transform_input(self, m: Module) -> Function:
        """Transform `count` tiles, one channel block after the other, so that reads follow rows of the input."""
        n, lanes, matrix = self.s.side, self.lanes, transforms(self.s.tile).input
        pointers = ("params", "tiles", "input", "target")
        g = m.function("transform_input", [(p, PTR) for p in pointers] + [("count", I64)])
        with g:
            half = g.stack(n * n * lanes)
            row, plane = self._parameter(g, "input_row"), self._parameter(g, "v_plane")
            rows, planes = [row * k for k in range(n)], [plane * k for k in range(n)]
            blocks = self._parameter(g, "channel_blocks")
            with g.loop(0, blocks, carry=[g.args["input"], g.args["target"]], opaque=True) as block:
                start, targets = block.carried
                with g.loop(0, g.args["count"], carry=[g.args["tiles"], targets], opaque=True) as loop:
                    tile, target = loop.carried
                    source = g.at(start, g.load(tile, TILE.index("input"), I64))
                    with g.loop(0, n, carry=[source, half], at_least_once=True, opaque=True) as column:
                        pixel, place = column.carried
                        values = multiply(g, matrix, [g.load(pixel, r) for r in rows])
                        for k, value in enumerate(values):
                            g.store(value, place, k * n * lanes)
                        column.next(g.at(pixel, lanes), g.at(place, lanes))
                    with g.loop(0, n, carry=[half, target], at_least_once=True, opaque=True) as line:
                        place, out = line.carried
                        values = multiply(g, matrix, [g.load(place, j * lanes) for j in range(n)])
                        for p, value in zip(planes, values, strict=True):
                            g.store(value, out, p)
                        line.next(g.at(place, n * lanes), g.at(out, plane * n))
                    loop.next(g.at(tile, tile_size(self.epilogue), I64), g.at(target, lanes))
                block.next(g.at(start, self._parameter(g, "input_block")), g.at(targets, self._parameter(g, "v_block")))
        return g

    def _transform_output(self, m: Module) -> Function:
        """Transform `count` tiles back and store them, one of `vectors` channel blocks after the other."""
        n, size, lanes, matrix = self.s.side, self.s.tile, self.lanes, transforms(self.s.tile).output
        kinds = self.epilogue.kinds
        operands = names_of(kinds)
        pointers = ["params", "tiles", "source", "bias", "output", *operands, "seen"]
        g = m.function("transform_output", [(p, PTR) for p in pointers] + [(i, I64) for i in ("count", "vectors")])
        with g:
            half, spill = g.stack(size * n * lanes), g.stack(size * lanes)
            plane = self._parameter(g, "m_plane")
            planes = [plane * (k * n) for k in range(n)]
            start = [g.args[p] for p in pointers[2:-1]]
            with g.loop(0, g.args["vectors"], carry=start, at_least_once=True, opaque=True) as vector:
                sources, bias, output, *bases = vector.carried
                shift = g.load(bias, 0)
                with g.loop(0, g.args["count"], carry=[g.args["tiles"], sources], opaque=True) as loop:
                    tile, source = loop.carried
                    field = {name: g.load(tile, i, I64) for i, name in enumerate(TILE)}
                    own = [g.at(base, g.load(tile, len(TILE) + i, I64)) for i, base in enumerate(bases)]
                    with g.loop(0, n, carry=[source, half], at_least_once=True, opaque=True) as column:
                        here, place = column.carried
                        for i, value in enumerate(multiply(g, matrix, [g.load(here, p) for p in planes])):
                            g.store(value, place, i * n * lanes)
                        column.next(g.at(here, plane), g.at(place, lanes))
                    begin = [g.load(g.args["seen"], 0), half, g.at(output, field["output"]), *own]
                    with g.loop(0, field["rows"], carry=begin, at_least_once=True, opaque=True) as row:
                        seen, place, out, *places = row.carried
                        values = multiply(g, matrix, [g.load(place, j * lanes) for j in range(n)])
                        for value in values:
                            seen = g.fma(value, g.zero, seen)
                        self._store_row(g, [v + shift for v in values], field["columns"], spill, out, places)
                        steps = [
                            self._parameter(g, f"{name}.row") if kind is OperandKind.TENSOR else 0
                            for name, kind in zip(operands, kinds, strict=True)
                        ]
                        moved = [g.at(p, s) for p, s in zip(places, steps, strict=True)]
                        row.next(seen, g.at(place, n * lanes), g.at(out, self._parameter(g, "output_row")), *moved)
                    g.store(row.results[0], g.args["seen"], 0)
                    loop.next(g.at(tile, tile_size(self.epilogue), I64), g.at(source, lanes))
                moved = [
                    p if kind is OperandKind.SCALAR else g.at(p, self._parameter(g, f"{name}.block"))
                    for name, p, kind in zip(operands, bases, kinds, strict=True)
                ]
                following = g.at(output, self._parameter(g, "output_block"))
                vector.next(g.at(sources, self._parameter(g, "m_block")), g.at(bias, lanes), following, *moved)
        return g

    def _store_row(
        self, g: Function, values: list[Value], columns: Value, spill: Value, output: Value, operands: list[Value]
    ) -> None:
        """Epilogue and store of a row's pixels, of which the tile may have fewer `columns`."""

        def finished(value: Value, offset: Value) -> Value:
            kinds = self.epilogue.kinds
            return self.epilogue.emit(g, value, lambda i: operand_vector(g, kinds[i], operands[i], offset))

        def in_registers() -> None:
            for x, value in enumerate(values):
                offset = g.const(x * self.lanes, I64)
                g.store(finished(value, offset), output, offset)

        def through_memory() -> None:
            for x, value in enumerate(values):
                g.store(value, spill, x * self.lanes)
            with g.loop(0, columns, at_least_once=True) as loop:
                offset = loop.index * self.lanes
                g.store(finished(g.load(spill, offset), offset), output, offset)

        if self.epilogue.is_light:
            g.branch(g.eq(columns, len(values)), in_registers, through_memory)
        else:
            through_memory()
