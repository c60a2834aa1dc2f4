"""The register tile of matrix products, and the choice of its height.

A tile keeps ``rows`` x ``panels * vectors`` accumulators in registers. One step of its loop reads ``vectors`` vectors
of each panel of B, broadcasts one element of each row of A, and does all their multiply-adds. Rows and steps of A
have any strides, so A is used where it lies, transposed or not.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I64, PTR, Value

MAX_PANELS = 4
BLOCK = 128
"""Steps of k that are summed in one go."""
# Row pointers serve three rows each: an address may add one or two row strides, and more pointers would not fit.
ROWS_PER_POINTER = 3


def vectors_of(isa: Isa) -> int:
    """Vectors in a panel: wide enough that broadcasts are used twice, and at least a cache line."""
    return max(2, 16 // isa.lanes)


def panel_width(isa: Isa) -> int:
    """Columns of a panel."""
    return vectors_of(isa) * isa.lanes


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of the tall tiles (the others have one less), and the panels that a tile spans."""

    rows: int
    panels: int


@dataclass(frozen=True, slots=True)
class Rows:
    """``tall`` tiles of ``tile.rows`` rows, then ``short`` tiles of one row less: all rows, without a remainder."""

    tile: Tile
    tall: int
    short: int
    cycles: float
    """Time of one step of k over all rows and one panel, in cycles of a core with two multiply-add units."""


def panels_for(isa: Isa, rows: int) -> int:
    """The most panels that fit in registers with ``rows`` rows."""
    best = 1
    for panels in range(2, MAX_PANELS + 1):
        wide = panels * vectors_of(isa)
        # With one row, each vector of B is used once and comes straight from memory.
        if rows * wide + (wide if rows > 1 else 0) + 1 <= isa.registers:
            best = panels
    return best


@functools.lru_cache(2048)
def choose_rows(isa: Isa, count: int, single: bool = False) -> Rows:
    """Split ``count`` rows into tiles of two neighbouring heights.

    Few heights are considered, to compile few kernels. ``single`` keeps tiles to one panel.
    """
    nv = vectors_of(isa)
    tallest = (isa.registers - 1 - nv) // nv
    best: Rows | None = None
    for rows in [h for h in (14, 12, 10, 8, 6, 4, 2, 1) if h <= tallest]:
        tiles = -(-count // rows)
        if tiles * (rows - 1) > count or (rows == 1 and count > 1):
            continue
        short = tiles * rows - count
        panels = 1 if single else panels_for(isa, rows)
        cycles = (tiles - short) * _cycles(isa, rows, nv * panels) / panels
        cycles += short * _cycles(isa, rows - 1, nv * panels) / panels
        if best is None or cycles < best.cycles:
            best = Rows(Tile(rows, panels), tiles - short, short, cycles)
    assert best is not None
    return best


def _cycles(isa: Isa, rows: int, vectors: int) -> float:
    """Cycles of one step: two multiply-adds or two loads a cycle, 32 bytes of B a cycle from the second-level cache, a
    latency of four for each accumulator, and a little for every step and vector that a taller tile would save."""
    return max(rows * vectors / 2, (rows + vectors) / 2, vectors * isa.bytes / 32, 4.0) + 0.25 + 0.05 * vectors


def tile_function(module: Module, rows: int, panels: int) -> Function:
    """The function ``tile<rows>(a, row, step, b0.., bstep, k, ahead, pace, zeros, out)``.

    It makes out[panel][row][column] = sum over k. ``row`` and ``step`` are A's strides in elements, ``bstep`` that
    between two steps of B's panels. Each step also asks for the cache line at ``ahead`` and moves that on by ``pace``
    bytes: what the tiles after this one will read arrives while this one computes. Sums are taken in blocks of k, so
    that rounding errors do not grow with its length; ``zeros`` is what the first block is added to (see
    ``zero_tile``).
    """
    isa = module.isa
    nv = vectors_of(isa)
    wide = panels * nv
    names = [f"b{p}" for p in range(panels)]
    arguments = [("a", PTR), ("row", I64), ("step", I64), *((n, PTR) for n in names), ("bstep", I64), ("k", I64)]
    arguments += [("ahead", PTR), ("pace", I64), ("zeros", PTR)]
    with module.function(f"tile{rows}", [*arguments, ("out", PTR)]) as f:
        row, step, bstep, k = (f.args[n] for n in ("row", "step", "bstep", "k"))
        multiples = [f.const(0, I64), row, row + row]
        groups = [f.at(f.args["a"], row * (g * ROWS_PER_POINTER)) for g in range(-(-rows // ROWS_PER_POINTER))]
        pointers = [*groups, *(f.args[n] for n in names), f.args["ahead"]]
        moving = len(pointers)
        # Without any k, one empty block stores the zeros.
        with f.loop(0, f.max(k, 1), step=BLOCK, carry=[*pointers, f.args["zeros"]], at_least_once=True) as block:
            start = [*block.carried[:moving], *[f.zero] * (rows * wide)]
            with f.loop(0, f.min(k - block.index, BLOCK), carry=start) as loop:
                a, b = loop.carried[: len(groups)], loop.carried[len(groups) : moving - 1]
                ahead, sums = loop.carried[moving - 1], loop.carried[moving:]
                f.prefetch(ahead)
                vectors = [f.load(p, v * f.lanes) for p in b for v in range(nv)]
                following = []
                for m in range(rows):
                    x = f.broadcast(a[m // ROWS_PER_POINTER], multiples[m % ROWS_PER_POINTER])
                    following += [f.fma(x, vector, sums[m * wide + v]) for v, vector in enumerate(vectors)]
                moved = [*(f.at(p, step) for p in a), *(f.at(p, bstep) for p in b), f.at(ahead, f.args["pace"], I8)]
                loop.next(*moved, *following)
            before, sums = block.carried[moving], loop.results[moving:]
            for m in range(rows):
                for v in range(wide):
                    panel, column = divmod(v, nv)
                    slot = ((panel * rows + m) * nv + column) * f.lanes
                    f.store(sums[m * wide + v] + f.load(before, slot), f.args["out"], slot)
            block.next(*loop.results[:moving], f.args["out"])
    return f


def zero_tile(f: Function, tile: Tile) -> Value:
    """Memory of the kernel with a tile of zeros."""
    size = tile.rows * tile.panels * panel_width(f.isa)
    memory = f.stack(size)
    with f.loop(0, size, step=f.lanes) as loop:
        f.store(f.zero, memory, loop.index)
    return memory
