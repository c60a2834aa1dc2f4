"""The register tile of matrix products, and the choice of its height.

A tile keeps ``rows`` x ``panels * vectors`` accumulators in registers. One step of its loop reads ``vectors`` vectors
of each panel of B, broadcasts one element of each row of A, and does all their multiply-adds. Rows and steps of A
have any strides, so A is used where it lies, transposed or not.
"""

from __future__ import annotations

from dataclasses import dataclass

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I64, PTR

MAX_PANELS = 4
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
    """The function ``tile<rows>(a, row, step, b0.., bstep, k, ahead, pace, out)``.

    It makes out[panel][row][column] = sum over k. ``row`` and ``step`` are A's strides in elements, ``bstep`` that
    between two steps of B's panels. Each step also asks for the cache line at ``ahead`` and moves that on by ``pace``
    bytes: what the tiles after this one will read arrives while this one computes.
    """
    isa = module.isa
    nv = vectors_of(isa)
    names = [f"b{p}" for p in range(panels)]
    arguments = [("a", PTR), ("row", I64), ("step", I64), *((n, PTR) for n in names), ("bstep", I64), ("k", I64)]
    arguments += [("ahead", PTR), ("pace", I64)]
    with module.function(f"tile{rows}", [*arguments, ("out", PTR)]) as f:
        row, step, bstep = f.args["row"], f.args["step"], f.args["bstep"]
        multiples = [f.const(0, I64), row, row + row]
        groups = [f.at(f.args["a"], row * (g * ROWS_PER_POINTER)) for g in range(-(-rows // ROWS_PER_POINTER))]
        start = [*groups, *(f.args[n] for n in names), f.args["ahead"], *[f.zero] * (rows * panels * nv)]
        with f.loop(0, f.args["k"], carry=start) as loop:
            a = loop.carried[: len(groups)]
            b = loop.carried[len(groups) : len(groups) + panels]
            ahead = loop.carried[len(groups) + panels]
            sums = loop.carried[len(groups) + panels + 1 :]
            f.prefetch(ahead)
            vectors = [f.load(p, v * f.lanes) for p in b for v in range(nv)]
            following = []
            for m in range(rows):
                x = f.broadcast(a[m // ROWS_PER_POINTER], multiples[m % ROWS_PER_POINTER])
                following += [f.fma(x, vector, sums[m * panels * nv + v]) for v, vector in enumerate(vectors)]
            loop.next(
                *(f.at(p, step) for p in a), *(f.at(p, bstep) for p in b), f.at(ahead, f.args["pace"], I8), *following
            )
        sums = loop.results[len(groups) + panels + 1 :]
        for m in range(rows):
            for v in range(panels * nv):
                panel, column = divmod(v, nv)
                f.store(sums[m * panels * nv + v], f.args["out"], ((panel * rows + m) * nv + column) * f.lanes)
    return f
