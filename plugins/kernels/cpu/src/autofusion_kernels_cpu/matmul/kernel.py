"""The matrix product kernel: tasks of (batch, block of rows, panels), each a column of register tiles and their
epilogue.

A task computes all its rows for ``tile.panels`` panels of B: B's panels stay close to the core while A passes by.
Tiles are written to memory that stays in the first-level cache, and a small loop over their rows applies the
epilogue, so that one piece of code serves every tile, any tail, and any amount of arithmetic.

In the code are the tile, how B comes (packed, by rows or by columns), the epilogue region and the kinds of its
operands.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from autofusion.ir.graph import Value as GraphValue
from autofusion_kernels_cpu.codegen import elements, nest
from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.pointwise_ops import evaluate, literal
from autofusion_kernels_cpu.codegen.region import Region
from autofusion_kernels_cpu.codegen.values import I8, I64, PTR, Type, Value
from autofusion_kernels_cpu.matmul.pack import pack_columns, pack_rows
from autofusion_kernels_cpu.matmul.tile import Tile, panel_width, tile_function, vectors_of, zero_tile
from autofusion_kernels_cpu.native.jit import jit

PACKED, BY_ROWS, BY_COLUMNS = "packed", "rows", "columns"
VECTOR, SCALAR = "vector", "scalar"


@dataclass(frozen=True, slots=True, eq=False)
class Epilogue:
    """What becomes of a product: ``alpha * product + beta * c``, then ``region``, which reads it as ``product``.

    ``kinds`` says for each leaf whether it runs along the columns (``vector``) or is one element a row (``scalar``).
    ``c`` is the value that is added, a leaf or a literal, or None.
    """

    region: Region
    kinds: tuple[str, ...]
    product: GraphValue
    alpha: float = 1.0
    beta: float = 1.0
    c: GraphValue | None = None

    def key(self) -> tuple[object, ...]:
        """Equal for epilogues that make the same code."""
        added: object = None
        if self.c is not None:
            leaves = [leaf.value for leaf in self.region.leaves]
            added = leaves.index(self.c) if self.c in leaves else repr(self.c.const)
        return (self.region.signature({self.product: "product"}), self.kinds, self.alpha, self.beta, added)

    def emit(self, f: Function, product: Value, leaves: dict[GraphValue, Value]) -> dict[GraphValue, Value]:
        """All values of the region for one vector of the product."""
        env = dict(leaves)
        if self.alpha != 1.0:
            product = product * self.alpha
        if self.c is not None:
            added = leaves[self.c] if self.c in leaves else literal(f, self.c, f.lanes)
            product = product + (added if self.beta == 1.0 else added * self.beta)
        env[self.product] = product
        evaluate(f, self.region.nodes, env, f.lanes)
        return env


@dataclass(frozen=True, slots=True)
class Form:
    """The structure of a product besides its epilogue."""

    tile: Tile
    source: str


_addresses: dict[tuple[object, ...], int] = {}


def address(form: Form, epilogue: Epilogue, isa: Isa) -> int:
    """The compiled kernel, made at the first call for this structure."""
    key = (isa.name, form, epilogue.key())
    if key not in _addresses:
        _addresses[key] = jit().kernel(build(form, epilogue, isa))
    return _addresses[key]


PARAMETERS = (
    "k", "columns", "workers", "batches", "groups", "panels", "tiles", "tall", "group_tiles",
    "a_row", "a_step", "b_panel", "b_step", "direct", "scratch", "prefetch", "pace",
)  # fmt: skip
"""``columns``: N. ``panels``: of the whole of B. ``tiles``: all row tiles, of which ``tall`` are tall;
``group_tiles`` in a task. ``b_panel``: elements between panels (packed) or columns (by columns); ``b_step``: between
steps of k (by rows). ``direct``: rows of B are used where they lie if all columns are there. ``scratch``: bytes for
each thread. ``prefetch``: cache lines of the next panel to ask for at each tile. Then, for every leaf and result, its
row stride."""


def build(form: Form, epilogue: Epilogue, isa: Isa) -> Module:
    """Buffers: table of offsets [batch][a, b, leaves, results] in elements, a, b, leaves, results, scratch."""
    module = Module(isa)
    tile, region = form.tile, epilogue.region
    outside = [*(leaf.value for leaf in region.leaves), *region.results]
    names = [f"x{i}" for i in range(len(outside))]
    tall = tile_function(module, tile.rows, tile.panels)
    short = tile_function(module, tile.rows - 1, tile.panels) if tile.rows > 1 else None
    finish = _finish(module, epilogue)
    packer = {PACKED: None, BY_ROWS: pack_rows, BY_COLUMNS: pack_columns}[form.source]
    pack = packer(module) if packer is not None else None
    strides = [f"{n}_row" for n in names]
    with module.kernel("matmul", ["table", "a", "b", *names, "scratch"], [*PARAMETERS, *strides]) as f:
        p, width = f.param, panel_width(isa)
        memory = f.at(f.buffer["scratch"], p["scratch"] * f.thread, I8)
        tile_memory = f.stack(tile.rows * tile.panels * width)
        zeros = zero_tile(f, tile)
        # Panels are taken together as far as a tile spans them.
        spans = f.udiv(p["panels"] + (tile.panels - 1), tile.panels)
        tasks = p["batches"] * p["groups"] * spans
        first, last = nest.share(f, tasks, p["workers"])
        with f.loop(first, last) as task:
            span, rest = f.urem(task.index, spans), f.udiv(task.index, spans)
            group, batch = f.urem(rest, p["groups"]), f.udiv(rest, p["groups"])
            offsets = f.at(f.buffer["table"], batch * (2 + len(names)), I64)
            panel = span * tile.panels
            a = f.at(f.buffer["a"], f.load(offsets, 0, I64))
            b = f.at(f.buffer["b"], f.load(offsets, 1, I64))
            outer = [
                f.at(f.buffer[n], f.load(offsets, 2 + i, I64), elements.memory_type(v.tensor.dtype))
                for i, (n, v) in enumerate(zip(names, outside, strict=True))
            ]
            b_panels, b_step = _panels(f, form, pack, b, panel, memory)
            # The panels after these; each tile asks for its part of them.
            ahead = f.at(b_panels[0], p["k"] * (tile.panels * width))

            def column(rows: int, function: Function, low: Value, high: Value, first_row: Value) -> None:
                with f.loop(low, high, carry=[first_row]) as loop:
                    (row,) = loop.carried
                    lines = f.at(ahead, (loop.index - group * p["group_tiles"]) * p["prefetch"], I8)
                    pointer = f.at(a, row * p["a_row"])
                    f.call(
                        function,
                        pointer,
                        p["a_row"],
                        p["a_step"],
                        *b_panels,
                        b_step,
                        p["k"],
                        lines,
                        p["pace"],
                        zeros,
                        tile_memory,
                    )
                    for i in range(tile.panels):
                        left = p["columns"] - (panel + i) * width
                        with f.when(left > 0) if i else contextlib.nullcontext():
                            pointers = [
                                f.at(o, row * p[s] + ((panel + i) * width if kind == VECTOR else 0), _memory(v))
                                for o, s, kind, v in zip(
                                    outer,
                                    strides,
                                    [*epilogue.kinds, *[VECTOR] * len(region.results)],
                                    outside,
                                    strict=True,
                                )
                            ]
                            source = f.at(tile_memory, i * rows * width)
                            f.call(finish, source, rows, left, *pointers, *(p[s] for s in strides))
                    loop.next(row + rows)

            low = group * p["group_tiles"]
            high = f.min(low + p["group_tiles"], p["tiles"])
            column(tile.rows, tall, low, f.min(high, p["tall"]), low * tile.rows)
            if short is not None:
                begin = f.max(low, p["tall"])
                row = begin * (tile.rows - 1) + p["tall"]
                column(tile.rows - 1, short, begin, high, row)
    return module


def _memory(value: GraphValue) -> Type:
    return elements.memory_type(value.tensor.dtype)


def _panels(
    f: Function, form: Form, pack: Function | None, b: Value, panel: Value, memory: Value
) -> tuple[list[Value], Value]:
    """Pointers to the task's panels, and their stride between steps of k."""
    p, width, count = f.param, panel_width(f.isa), form.tile.panels
    if pack is None:
        last = p["panels"] - 1
        return [f.at(b, f.min(panel + i, last) * p["b_panel"]) for i in range(count)], f.const(width, I64)
    steps = (p["k"] + (f.lanes - 1)) & -f.lanes
    packed = [f.at(memory, steps * (i * width)) for i in range(count)]
    column_stride = f.const(1, I64) if form.source == BY_ROWS else p["b_panel"]
    step = p["b_step"] if form.source == BY_ROWS else p["b_panel"]
    sources = [f.at(b, (panel + i) * width * column_stride) for i in range(count)]

    def pack_all() -> list[Value]:
        for i in range(count):
            left = p["columns"] - (panel + i) * width
            with f.when(left > 0):
                f.call(pack, sources[i], step, packed[i], p["k"], left)
        return [*packed, f.const(width, I64)]

    if form.source == BY_COLUMNS:
        *pointers, stride = pack_all()
        return pointers, stride
    whole = (panel + count) * width <= p["columns"]
    chosen = f.branch(whole & f.ne(p["direct"], 0), lambda: [*sources, p["b_step"]], pack_all)
    return chosen[:-1], chosen[-1]


def _finish(module: Module, epilogue: Epilogue) -> Function:
    """``finish(tile, rows, columns, pointers.., row strides..)``: one panel of a tile through the epilogue."""
    region = epilogue.region
    nv = vectors_of(module.isa)
    outside = [*(leaf.value for leaf in region.leaves), *region.results]
    kinds = [*epilogue.kinds, *[VECTOR] * len(region.results)]
    arguments = [("tile", PTR), ("rows", I64), ("columns", I64)]
    arguments += [(f"x{i}", PTR) for i in range(len(outside))] + [(f"s{i}", I64) for i in range(len(outside))]
    # A result may lie where a leaf does.
    with module.function("finish", arguments, noalias=False) as f:
        masks = [f.tail_mask(f.args["columns"] - v * f.lanes) for v in range(nv)]
        start = [f.args["tile"], *(f.args[f"x{i}"] for i in range(len(outside)))]
        with f.loop(0, f.args["rows"], carry=start) as loop:
            tile, *pointers = loop.carried
            for v, mask in enumerate(masks):
                leaves = {}
                for leaf, kind, pointer in zip(region.leaves, kinds, pointers, strict=False):
                    if kind == VECTOR:
                        leaves[leaf.value] = elements.load(f, leaf.dtype, pointer, v * f.lanes, f.lanes, mask)
                    else:
                        leaves[leaf.value] = elements.broadcast(f, leaf.dtype, pointer, 0, f.lanes)
                env = epilogue.emit(f, f.load(tile, v * f.lanes), leaves)
                for value, pointer in zip(region.results, pointers[len(region.leaves) :], strict=True):
                    elements.store(f, value.tensor.dtype, env[value], pointer, v * f.lanes, mask)
            moved = [
                f.at(p, f.args[f"s{i}"], _memory(v)) for i, (p, v) in enumerate(zip(pointers, outside, strict=True))
            ]
            loop.next(f.at(tile, nv * f.lanes), *moved)
    return f
