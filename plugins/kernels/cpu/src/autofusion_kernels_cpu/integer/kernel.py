"""The kernel of integer products: tasks of (batch, block of rows, panels), as that of float32 ones.

A task computes all its rows for ``tile.panels`` packed panels of B. Tiles are written to memory that stays in the
first-level cache; a small loop over their rows makes up for zero points and applies the epilogue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen import elements, nest
from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I32, I64, PTR, Type, Value
from autofusion_kernels_cpu.integer.form import Form
from autofusion_kernels_cpu.integer.operand import unsigned_byte
from autofusion_kernels_cpu.integer.tile import tile_function
from autofusion_kernels_cpu.matmul.tile import Tile, panel_width, vectors_of
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text


@dataclass(frozen=True, slots=True)
class Structure:
    """What the code depends on besides its epilogue.

    ``a_zero``: A has a zero point to make up for, of signed elements if ``signed``. ``b_zero``: B has one too.
    """

    form: Form
    tile: Tile
    a_zero: bool = False
    signed: bool = False
    b_zero: bool = False


PARAMETERS = (
    "columns", "groups", "workers", "batches", "blocks", "panels", "tiles", "tall", "block_tiles",
    "a_row", "b_panel", "prefetch", "pace",
)  # fmt: skip
"""``columns``: N. ``groups``: of k. ``blocks`` of ``block_tiles`` row tiles, of which ``tall`` are tall. ``a_row`` and
``b_panel``: bytes between rows and panels. ``prefetch``: bytes of the next panel to ask for at each tile. Then, for
every other operand (see ``operand_names``), its row stride."""


def operand_names(s: Structure, epilogue: Epilogue) -> list[str]:
    """Buffers that move with the result: corrections, leaves, results, in this order."""
    named = (["a_zero", "columns_sum"] if s.a_zero else []) + (["rows_sum", "b_zero"] if s.b_zero else [])
    return [*named, *(f"x{i}" for i in range(len(epilogue.leaves) + len(epilogue.region.results)))]


def build(s: Structure, epilogue: Epilogue, isa: Isa) -> Kernel:
    """Buffers: table of offsets [batch][a, b, others] (bytes for a and b, else elements), a, b, others."""
    names = operand_names(s, epilogue)
    return Kernel(
        "integer.matmul",
        isa,
        structure_text(s, epilogue.key),
        ("table", "a", "b", *names),
        (*PARAMETERS, *(f"{name}_row" for name in names)),
        partial(_emit, s=s, epilogue=epilogue),
    )


def _types(s: Structure, epilogue: Epilogue) -> list[Type]:
    """Element types in memory of the operands that move with the result."""
    corrections = ([I8, I32] if s.a_zero else []) + ([I32, I32] if s.b_zero else [])
    values = [*(leaf.value for leaf in epilogue.leaves), *epilogue.region.results]
    return [*corrections, *(elements.memory_type(v.tensor.dtype) for v in values)]


def _moving(s: Structure, epilogue: Epilogue) -> list[bool]:
    """Which of them move along the columns."""
    corrections = ([False, True] if s.a_zero else []) + ([False, True] if s.b_zero else [])
    leaves = [kind is OperandKind.TENSOR for kind in epilogue.kinds]
    return [*corrections, *leaves, *[True] * len(epilogue.region.results)]


def _emit(f: Function, s: Structure, epilogue: Epilogue) -> None:
    module, tile, p = f.module, s.tile, f.param
    names, types, moving = operand_names(s, epilogue), _types(s, epilogue), _moving(s, epilogue)
    strides = [p[f"{name}_row"] for name in names]
    functions = [(n, tile_function(module, s.form, n, tile.panels)) for n in (tile.rows, tile.rows - 1) if n]
    finish = _finish(module, s, epilogue)
    width = panel_width(f.isa)
    memory = f.stack(tile.rows * tile.panels * width)
    spans = f.udiv(p["panels"] + (tile.panels - 1), tile.panels)
    first, last = nest.share(f, p["batches"] * p["blocks"] * spans, p["workers"])
    with f.loop(first, last) as task:
        span, rest = f.urem(task.index, spans), f.udiv(task.index, spans)
        block, batch = f.urem(rest, p["blocks"]), f.udiv(rest, p["blocks"])
        offsets = f.at(f.buffer["table"], batch * (2 + len(names)), I64)
        panel = span * tile.panels
        a = f.at(f.buffer["a"], f.load(offsets, 0, I64), I8)
        b = f.at(f.buffer["b"], f.load(offsets, 1, I64), I8)
        others = [
            f.at(f.buffer[n], f.load(offsets, 2 + i, I64), t) for i, (n, t) in enumerate(zip(names, types, strict=True))
        ]
        panels = [f.at(b, f.min(panel + i, p["panels"] - 1) * p["b_panel"], I8) for i in range(tile.panels)]
        # The panels after these; each tile asks for its part of them.
        ahead = f.at(panels[0], p["b_panel"] * tile.panels, I8)

        def column(rows: int, function: Function, low: Value, high: Value, first_row: Value) -> None:
            with f.loop(low, high, carry=[first_row]) as loop:
                (row,) = loop.carried
                lines = f.at(ahead, (loop.index - block * p["block_tiles"]) * p["prefetch"], I8)
                start = f.at(a, row * p["a_row"], I8)
                f.call(function, start, p["a_row"], *panels, p["groups"], lines, p["pace"], memory)
                for i in range(tile.panels):
                    left = p["columns"] - (panel + i) * width
                    with f.when(left > 0) if i else contextlib.nullcontext():
                        column = (panel + i) * width
                        pointers = [
                            f.at(o, row * stride + (column if moves else 0), t)
                            for o, stride, moves, t in zip(others, strides, moving, types, strict=True)
                        ]
                        f.call(finish, f.at(memory, i * rows * width), rows, left, *pointers, *strides)
                loop.next(row + rows)

        low = block * p["block_tiles"]
        high = f.min(low + p["block_tiles"], p["tiles"])
        column(*functions[0], low, f.min(high, p["tall"]), low * tile.rows)
        if len(functions) > 1:
            begin = f.max(low, p["tall"])
            column(*functions[1], begin, high, begin * (tile.rows - 1) + p["tall"])


def _finish(module: Module, s: Structure, epilogue: Epilogue) -> Function:
    """``finish(tile, rows, columns, pointers.., row strides..)``: one panel of a tile through the epilogue."""
    types, region, nv = _types(s, epilogue), epilogue.region, vectors_of(module.isa)
    arguments = [("tile", PTR), ("rows", I64), ("columns", I64)]
    arguments += [(f"x{i}", PTR) for i in range(len(types))] + [(f"s{i}", I64) for i in range(len(types))]
    # A result may lie where a leaf does.
    with module.function("finish", arguments, noalias=False) as f:
        masks = [f.tail_mask(f.args["columns"] - v * f.lanes) for v in range(nv)]
        start = [f.args["tile"], *(f.args[f"x{i}"] for i in range(len(types)))]
        with f.loop(0, f.args["rows"], carry=start) as loop:
            tile, *pointers = loop.carried
            factors, rest = _row_factors(f, s, pointers)
            for v, mask in enumerate(masks):
                total = f.load(tile, v * f.lanes, f.i32)
                for factor, vector in factors:
                    # Whole panels of the vectors are there.
                    total = total - f.load(vector, v * f.lanes, f.i32) * factor
                leaves = {}
                for leaf, kind, pointer in zip(region.leaves, epilogue.kinds, rest, strict=False):
                    if leaf.table:
                        leaves[leaf.value] = pointer
                    elif kind is OperandKind.TENSOR:
                        leaves[leaf.value] = elements.load(f, leaf.dtype, pointer, v * f.lanes, f.lanes, mask)
                    else:
                        leaves[leaf.value] = elements.broadcast(f, leaf.dtype, pointer, 0, f.lanes)
                env = epilogue.values(f, total, leaves)
                for value, pointer in zip(region.results, rest[len(region.leaves) :], strict=True):
                    elements.store(f, value.tensor.dtype, env[value], pointer, v * f.lanes, mask)
            moved = [f.at(x, f.args[f"s{i}"], t) for i, (x, t) in enumerate(zip(pointers, types, strict=True))]
            loop.next(f.at(tile, nv * f.lanes), *moved)
    return f


def _row_factors(f: Function, s: Structure, pointers: Sequence[Value]) -> tuple[list[tuple[Value, Value]], list[Value]]:
    """(number of this row, vector over the columns) whose products are taken off, and the other pointers."""
    rest, factors = list(pointers), []
    if s.a_zero:
        zero, vector = rest.pop(0), rest.pop(0)
        factors.append((f.splat(unsigned_byte(f, f.load(zero, 0, I8), s.signed), f.lanes), vector))
    if s.b_zero:
        total, vector = rest.pop(0), rest.pop(0)
        factors.append((f.splat(f.load(total, 0, I32), f.lanes), vector))
    return factors, rest
