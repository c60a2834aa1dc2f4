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
from functools import partial

from autofusion.ir.graph import Value as GraphValue
from autofusion_kernels_cpu.codegen import elements, nest
from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I64, PTR, Type, Value
from autofusion_kernels_cpu.matmul.pack import pack_columns, pack_rows
from autofusion_kernels_cpu.matmul.tile import Tile, panel_width, tile_function, vectors_of, zero_tile
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text

PACKED, BY_ROWS, BY_COLUMNS = "packed", "rows", "columns"


@dataclass(frozen=True, slots=True)
class Structure:
    """What the code of a product depends on besides its epilogue: the tile, and how B comes."""

    tile: Tile
    source: str


PARAMETERS = (
    "k", "columns", "workers", "batches", "groups", "panels", "tiles", "tall", "group_tiles",
    "a_row", "a_step", "b_panel", "b_step", "direct", "scratch", "prefetch", "pace",
)  # fmt: skip
"""``columns``: N. ``panels``: of the whole of B. ``tiles``: all row tiles, of which ``tall`` are tall;
``group_tiles`` in a task. ``b_panel``: elements between panels (packed) or columns (by columns); ``b_step``: between
steps of k (by rows). ``direct``: rows of B are used where they lie if all columns are there. ``scratch``: bytes for
each thread. ``prefetch``: cache lines of the next panel to ask for at each tile. Then, for every leaf and result, its
row stride."""


def build(structure: Structure, epilogue: Epilogue, isa: Isa) -> Kernel:
    """Buffers: table of offsets [batch][a, b, leaves, results] in elements, a, b, leaves, results, scratch."""
    names = operand_names(epilogue)
    return Kernel(
        "matmul",
        isa,
        structure_text(structure, epilogue.key),
        ("table", "a", "b", *names, "scratch"),
        (*PARAMETERS, *(f"{name}_row" for name in names)),
        partial(_emit, s=structure, epilogue=epilogue),
    )


def operand_names(epilogue: Epilogue) -> list[str]:
    """Buffers of the leaves and the results, in this order."""
    return [f"x{i}" for i in range(len(epilogue.leaves) + len(epilogue.region.results))]


def _outside(epilogue: Epilogue) -> tuple[list[GraphValue], list[OperandKind]]:
    """Leaves and results, and how they move."""
    results = epilogue.region.results
    values = [*(leaf.value for leaf in epilogue.leaves), *results]
    return values, [*epilogue.kinds, *[OperandKind.TENSOR] * len(results)]


def _emit(f: Function, s: Structure, epilogue: Epilogue) -> None:
    module, tile = f.module, s.tile
    outside, kinds = _outside(epilogue)
    names = operand_names(epilogue)
    strides = [f"{n}_row" for n in names]
    tall = tile_function(module, tile.rows, tile.panels)
    short = tile_function(module, tile.rows - 1, tile.panels) if tile.rows > 1 else None
    finish = _finish(module, epilogue)
    packer = {PACKED: None, BY_ROWS: pack_rows, BY_COLUMNS: pack_columns}[s.source]
    pack = packer(module) if packer is not None else None
    p, width = f.param, panel_width(f.isa)
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
        b_panels, b_step = _panels(f, s, pack, b, panel, memory)
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
                        column = (panel + i) * width
                        pointers = [
                            f.at(
                                o,
                                row * p[stride] + (column if kind is OperandKind.TENSOR else 0),
                                _memory(v),
                            )
                            for o, stride, kind, v in zip(
                                outer,
                                strides,
                                kinds,
                                outside,
                                strict=True,
                            )
                        ]
                        source = f.at(tile_memory, i * rows * width)
                        f.call(finish, source, rows, left, *pointers, *(p[stride] for stride in strides))
                loop.next(row + rows)

        low = group * p["group_tiles"]
        high = f.min(low + p["group_tiles"], p["tiles"])
        column(tile.rows, tall, low, f.min(high, p["tall"]), low * tile.rows)
        if short is not None:
            begin = f.max(low, p["tall"])
            row = begin * (tile.rows - 1) + p["tall"]
            column(tile.rows - 1, short, begin, high, row)


def _memory(value: GraphValue) -> Type:
    return elements.memory_type(value.tensor.dtype)


def _panels(
    f: Function, s: Structure, pack: Function | None, b: Value, panel: Value, memory: Value
) -> tuple[list[Value], Value]:
    """Pointers to the task's panels, and their stride between steps of k."""
    p, width, count = f.param, panel_width(f.isa), s.tile.panels
    if pack is None:
        last = p["panels"] - 1
        return [f.at(b, f.min(panel + i, last) * p["b_panel"]) for i in range(count)], f.const(width, I64)
    steps = (p["k"] + (f.lanes - 1)) & -f.lanes
    packed = [f.at(memory, steps * (i * width)) for i in range(count)]
    column_stride = f.const(1, I64) if s.source == BY_ROWS else p["b_panel"]
    step = p["b_step"] if s.source == BY_ROWS else p["b_panel"]
    sources = [f.at(b, (panel + i) * width * column_stride) for i in range(count)]

    def pack_all() -> list[Value]:
        for i in range(count):
            left = p["columns"] - (panel + i) * width
            with f.when(left > 0):
                f.call(pack, sources[i], step, packed[i], p["k"], left)
        return [*packed, f.const(width, I64)]

    if s.source == BY_COLUMNS:
        *pointers, stride = pack_all()
        return pointers, stride
    whole = (panel + count) * width <= p["columns"]
    chosen = f.branch(whole & f.ne(p["direct"], 0), lambda: [*sources, p["b_step"]], pack_all)
    return chosen[:-1], chosen[-1]


def _finish(module: Module, epilogue: Epilogue) -> Function:
    """``finish(tile, rows, columns, pointers.., row strides..)``: one panel of a tile through the epilogue."""
    region = epilogue.region
    nv = vectors_of(module.isa)
    outside, kinds = _outside(epilogue)
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
                    if kind is OperandKind.TENSOR:
                        leaves[leaf.value] = elements.load(f, leaf.dtype, pointer, v * f.lanes, f.lanes, mask)
                    else:
                        leaves[leaf.value] = elements.broadcast(f, leaf.dtype, pointer, 0, f.lanes)
                env = epilogue.values(f, f.load(tile, v * f.lanes), leaves)
                for value, pointer in zip(region.results, pointers[len(region.leaves) :], strict=True):
                    elements.store(f, value.tensor.dtype, env[value], pointer, v * f.lanes, mask)
            moved = [
                f.at(p, f.args[f"s{i}"], _memory(v)) for i, (p, v) in enumerate(zip(pointers, outside, strict=True))
            ]
            loop.next(f.at(tile, nv * f.lanes), *moved)
    return f
