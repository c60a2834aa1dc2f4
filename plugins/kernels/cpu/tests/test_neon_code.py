"""The hot loops of products and convolutions as AArch64 code: how much of it is multiply-adds, and that nothing spills.

Time under emulation says nothing, so the instructions are counted.
"""

from __future__ import annotations

import re

import pytest

from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.epilogue import NO_EPILOGUE
from autofusion_kernels_cpu.codegen.isa import NEON
from autofusion_kernels_cpu.conv.kernel import kernel as conv_kernel
from autofusion_kernels_cpu.conv.products import Structure
from autofusion_kernels_cpu.conv.tiles import widths
from autofusion_kernels_cpu.matmul.tile import choose_rows, tile_function
from autofusion_kernels_cpu.native.jit import jit

BRANCH = re.compile(r"(?:b\.\w+|cbn?z|tbn?z)\s+.*?(\.L\w+)$")
VECTOR = re.compile(r"\b[vqsd]\d+\b")
WANTED = 0.75
"""Multiply-adds among the vector instructions of the widest tile's loop."""


def inner_loops(assembly: str) -> list[list[str]]:
    """The instructions of every loop without a loop inside it."""
    lines = [line.split("//")[0].strip() for line in assembly.split("\n")]
    lines = [line for line in lines if line and (line.endswith(":") or not line.startswith("."))]
    labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    spans = []
    for i, line in enumerate(lines):
        found = BRANCH.match(line)
        if found and labels.get(found[1], len(lines)) <= i:
            spans.append((labels[found[1]], i))
    inner = [(a, b) for a, b in spans if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]
    return [[line for line in lines[a : b + 1] if not line.endswith(":")] for a, b in inner]


def product_loops(module: Module) -> list[tuple[float, list[str]]]:
    """The share of multiply-adds in each loop that has any, the longest loop first."""
    found = []
    for loop in inner_loops(jit().assembly(module)):
        vectors = [line for line in loop if VECTOR.search(line)]
        fused = [line for line in vectors if line.startswith("fmla")]
        if fused:
            found.append((len(fused) / len(vectors), loop))
    return sorted(found, key=lambda each: -len(each[1]))


def conv_module(vectors: int) -> Module:
    structure = Structure(NEON, NEON.lanes, NEON.lanes, vectors, widths(NEON, vectors), 0)
    return conv_kernel(structure, NO_EPILOGUE).module()


def matmul_module(rows: int) -> Module:
    module = Module(NEON)
    tile_function(module, rows, 1)
    return module


@pytest.mark.parametrize("vectors", [4, 5, 6])
def test_convolutions(vectors: int) -> None:
    (share, _), *_ = loops = product_loops(conv_module(vectors))
    assert share >= WANTED
    assert len(loops) == len(widths(NEON, vectors))


def test_products() -> None:
    (share, _), *_ = product_loops(matmul_module(choose_rows(NEON, 96).tile.rows))
    assert share >= WANTED


@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 5, 6, 8])
def test_no_tile_spills(vectors: int) -> None:
    loops = product_loops(conv_module(vectors))
    assert loops and not [line for _, loop in loops for line in loop if "[sp" in line]


@pytest.mark.parametrize("rows", [1, 2, 4, 6])
def test_no_product_spills(rows: int) -> None:
    loops = product_loops(matmul_module(rows))
    assert loops and not [line for _, loop in loops for line in loop if "[sp" in line]
