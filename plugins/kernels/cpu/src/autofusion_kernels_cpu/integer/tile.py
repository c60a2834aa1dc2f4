"""The register tile of integer products: as that of float32 ones, with groups of k for single steps."""

from __future__ import annotations

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.values import I8, I32, I64, PTR
from autofusion_kernels_cpu.integer.form import Form, multiply
from autofusion_kernels_cpu.matmul.tile import ROWS_PER_POINTER, vectors_of


def tile_function(module: Module, form: Form, rows: int, panels: int) -> Function:
    """The function ``tile<rows>(a, row, b0.., groups, ahead, pace, out)``.

    It makes out[panel][row][column], int32, the sum over ``groups``. ``row`` is A's stride in bytes. Each step also
    asks for the cache line at ``ahead`` and moves that on by ``pace`` bytes.
    """
    nv = vectors_of(module.isa)
    wide = panels * nv
    names = [f"b{p}" for p in range(panels)]
    arguments = [("a", PTR), ("row", I64), *((n, PTR) for n in names), ("groups", I64), ("ahead", PTR), ("pace", I64)]
    with module.function(f"tile{rows}", [*arguments, ("out", PTR)]) as f:
        row = f.args["row"]
        multiples = [f.const(0, I64), row, row + row]
        count = -(-rows // ROWS_PER_POINTER)
        pointers = [f.at(f.args["a"], row * (g * ROWS_PER_POINTER), I8) for g in range(count)]
        start = [*pointers, *(f.args[n] for n in names), f.args["ahead"], *[f.const(0, f.i32)] * (rows * wide)]
        with f.loop(0, f.args["groups"], carry=start) as loop:
            a, b = loop.carried[:count], loop.carried[count : count + panels]
            ahead, sums = loop.carried[count + panels], loop.carried[count + panels + 1 :]
            f.prefetch(ahead)
            vectors = [f.load(p, v * f.lanes, f.i32) for p in b for v in range(nv)]
            following = []
            for m in range(rows):
                address = f.at(a[m // ROWS_PER_POINTER], multiples[m % ROWS_PER_POINTER], I8)
                x = f.splat(f.load(address, 0, I32), f.lanes)
                following += [multiply(f, form, x, y, sums[m * wide + v]) for v, y in enumerate(vectors)]
            moved = [*(f.at(p, 4, I8) for p in a), *(f.at(p, nv * f.lanes, I32) for p in b)]
            loop.next(*moved, f.at(ahead, f.args["pace"], I8), *following)
        sums = loop.results[count + panels + 1 :]
        for m in range(rows):
            for v in range(wide):
                panel, column = divmod(v, nv)
                f.store(sums[m * wide + v], f.args["out"], ((panel * rows + m) * nv + column) * f.lanes)
    return f
