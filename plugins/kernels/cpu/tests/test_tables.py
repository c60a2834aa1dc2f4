"""Lookups of 8-bit integers in tables of 256: in pointwise regions and in the epilogues of integer kernels."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from autofusion.kernels import Refusal
from autofusion_kernels_cpu.codegen.isa import ISAS
from autofusion_kernels_cpu.integer.offers import offers as integer_offers
from autofusion_kernels_cpu.integer_conv.offers import offers as conv_offers
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.pointwise.kernel import TABLE, VECTOR, Structure, build
from autofusion_kernels_cpu.pointwise.offers import offers as pointwise_offers
from autofusion_kernels_cpu.pointwise.problem import pointwise_of
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

U8, S8 = np.uint8, np.int8
every_isa = pytest.mark.parametrize("isa", RUNNABLE)
EVERY_BYTE = np.arange(256, dtype=U8)
TABLE_DATA = np.random.default_rng(0).permutation(EVERY_BYTE)


def looked_up(g, x, table):
    return g("Gather", table, g("Cast", x, to=np.dtype(np.int32)), axis=0)


@every_isa
@pytest.mark.parametrize(("one", "other"), list(itertools.product((U8, S8), repeat=2)))
@pytest.mark.parametrize("shape", [(256,), (3, 85), (1, 19, 4, 5)], ids=str)
def test_regions(shape, one, other, isa):
    x = np.resize(EVERY_BYTE, shape).view(one)
    arrays = [x, TABLE_DATA.view(other)]
    for constants in ((), (1,)):
        node = fused("pointwise", looked_up, arrays, constants)
        check_node(pointwise_offers, node, arrays, isa=isa, threads=2, expected=[arrays[1][x.view(U8)]])


@every_isa
def test_a_table_beside_arithmetic(isa):
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-128, 128, (2, 18, 3, 5)).astype(S8) for _ in range(2))

    def layer(g, x, y, table):
        first = g("DequantizeLinear", looked_up(g, x, table), 0.1, g.constant(3, U8))
        return g("QuantizeLinear", g("Add", first, g("DequantizeLinear", y, 0.2)), 0.15, g.constant(-7, S8))

    check_node(pointwise_offers, fused("pointwise", layer, [x, y, TABLE_DATA]), [x, y, TABLE_DATA], isa=isa)


@every_isa
def test_epilogues(isa):
    rng = np.random.default_rng(2)
    x, w = rng.integers(0, 256, (1, 20, 6, 7)).astype(U8), rng.integers(-128, 128, (35, 20, 1, 1)).astype(S8)

    def layer(g, x, w, table):
        op = "ConvInteger" if w.shape[2:] else "MatMulInteger"
        real = g("Mul", g("Cast", g(op, x, w), to=np.dtype(np.float32)), 0.001)
        return looked_up(g, g("QuantizeLinear", real, 0.25, g.constant(9, U8)), table)

    arrays = [x, w, TABLE_DATA]
    check_node(conv_offers, fused("integer_conv", layer, arrays, [1]), arrays, isa=isa, threads=2)
    arrays = [x.reshape(42, 20), np.ascontiguousarray(w.reshape(35, 20).T), TABLE_DATA]
    check_node(integer_offers, fused("integer_matmul", layer, arrays, [1]), arrays, isa=isa, threads=2)


def test_other_gathers_are_refused():
    node = fused("pointwise", looked_up, [np.zeros(5, U8), np.zeros(255, U8)])
    answer = pointwise_offers(node, target_for(RUNNABLE[0]))
    assert isinstance(answer, Refusal) and "tables of 256" in answer.reason


VBMI = dataclasses.replace(ISAS["avx512"], features=ISAS["avx512"].features + ",+avx512vbmi")


@pytest.mark.parametrize("isa", [*ISAS.values(), VBMI], ids=[*ISAS, "avx512-vbmi"])
def test_assembles(isa):
    problem = pointwise_of(fused("pointwise", looked_up, [np.zeros(5, U8), TABLE_DATA]))
    assert not isinstance(problem, Refusal), problem
    kinds = tuple(TABLE if leaf.table else VECTOR for leaf in problem.region.leaves)
    assert len(jit().object_code(build(problem.region, Structure(kinds), isa).module())) > 200
