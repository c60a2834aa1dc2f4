"""Products of 8-bit integers and dynamic quantisation against integer arithmetic in NumPy: bit for bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autofusion.ir.infer import infer_node
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.codegen.epilogue import Epilogue
from autofusion_kernels_cpu.codegen.isa import ISAS
from autofusion_kernels_cpu.integer import kernel, operand, quantise
from autofusion_kernels_cpu.integer.bind import bind
from autofusion_kernels_cpu.integer.form import Form, form_for
from autofusion_kernels_cpu.integer.offers import offers
from autofusion_kernels_cpu.integer.problem import integer_product_of
from autofusion_kernels_cpu.matmul.tile import choose_rows
from autofusion_kernels_cpu.native.jit import jit
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check, check_node, make_node, run_offer, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE, isa_named

U8, S8 = np.uint8, np.int8
every_isa = pytest.mark.parametrize("isa", RUNNABLE)
TYPES = [(U8, S8), (U8, U8), (S8, S8), (S8, U8)]
every_pair = pytest.mark.parametrize("types", TYPES, ids=["u8s8", "u8u8", "s8s8", "s8u8"])
SHAPES = [
    ((1, 1), (1, 1)),
    ((1, 7), (7, 5)),
    ((3, 40), (40, 64)),
    ((13, 33), (33, 31)),
    ((29, 64), (64, 100)),
    ((128, 130), (130, 100)),
    ((0, 3), (3, 4)),
    ((4, 0), (0, 9)),
    ((5,), (5,)),
    ((5,), (5, 36)),
    ((36, 6), (6,)),
    ((2, 3, 4, 20), (20, 40)),
    ((2, 1, 4, 21), (3, 21, 40)),
    ((4, 20), (2, 3, 20, 33)),
    ((2, 3, 8, 20), (20,)),
]


def numbers(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def product(a, b, a_zero=None, b_zero=None):
    """In 64 bits, as the operator says; one zero point for each row of A is a column."""
    if a_zero is not None:
        a_zero = a_zero.astype(np.int64)
        a_zero = a_zero[:, None] if a_zero.ndim == 1 and a_zero.size > 1 and a.ndim > 1 else a_zero.reshape(-1)[:, None]
        a_zero = a_zero.reshape(()) if a_zero.size == 1 else a_zero
    left = a.astype(np.int64) - (0 if a_zero is None else a_zero)
    right = b.astype(np.int64) - (0 if b_zero is None else b_zero.astype(np.int64))
    return np.asarray(left @ right).astype(np.int32)


def check_product(a, b, a_zero=None, b_zero=None, *, isa, threads=2, zero_constant=False):
    constants = [1, *([3] if b_zero is not None else []), *([2] if zero_constant and a_zero is not None else [])]
    wanted = product(a, b, a_zero, b_zero)
    check(offers, "MatMulInteger", [a, b, a_zero, b_zero], isa=isa, threads=threads, constants=constants,
          expected=[wanted])  # fmt: skip


@every_isa
@every_pair
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes_and_zero_points(shapes, types, isa):
    rng = np.random.default_rng(1)
    a, b = numbers(rng, types[0], *shapes[0]), numbers(rng, types[1], *shapes[1])
    for a_zero in (None, numbers(rng, types[0]), numbers(rng, types[0], 1)):
        for b_zero in (None, numbers(rng, types[1])):
            check_product(a, b, a_zero, b_zero, isa=isa)


@every_isa
@every_pair
def test_zero_points_of_rows_and_columns(types, isa):
    rng = np.random.default_rng(2)
    for m, k, n in [(5, 16, 40), (17, 19, 33), (30, 101, 65)]:
        a, b = numbers(rng, types[0], m, k), numbers(rng, types[1], k, n)
        for a_zero in (numbers(rng, types[0], m), numbers(rng, types[0], m, 1)):
            for b_zero in (numbers(rng, types[1], n), numbers(rng, types[1], 1, n)):
                check_product(a, b, a_zero, b_zero, isa=isa, zero_constant=m == 17)
    a, b = numbers(rng, types[0], 3, 4, 20), numbers(rng, types[1], 3, 20, 33)
    check_product(a, b, numbers(rng, types[0], 4), numbers(rng, types[1], 3, 1, 33), isa=isa)


@every_isa
@every_pair
def test_extremes(types, isa):
    """Pairs of products of extremes do not fit in 16 bits: nothing may saturate on the way."""
    ends = [(np.iinfo(t).min, np.iinfo(t).max) for t in types]
    for x in ends[0]:
        for y in ends[1]:
            a, b = np.full((9, 77), x, types[0]), np.full((77, 35), y, types[1])
            for a_zero in (None, *ends[0]):
                for b_zero in (None, *ends[1]):
                    zeros = [
                        None if z is None else np.array(z, t) for z, t in zip((a_zero, b_zero), types, strict=True)
                    ]
                    check_product(a, b, *zeros, isa=isa)


@every_isa
def test_sums_wrap_around(isa):
    a, b = np.full((2, 40_000), 255, U8), np.full((40_000, 3), 255, U8)
    check_product(a, b, isa=isa)


@every_isa
def test_every_number_of_rows(isa):
    rng = np.random.default_rng(3)
    b = numbers(rng, S8, 24, 40)
    for m in [*range(1, 40), 100, 197]:
        check_product(numbers(rng, U8, m, 24), b, np.array(3, U8), isa=isa, threads=1 + m % 3)


@every_isa
def test_words_on_a_machine_that_multiplies_bytes(isa):
    """The form for machines without the instructions runs everywhere, with all widths of vectors."""
    rng = np.random.default_rng(4)
    a, b, zero = numbers(rng, S8, 30, 45), numbers(rng, U8, 45, 70), numbers(rng, S8, 30)
    node = make_node("MatMulInteger", [a, b, zero], constants=[1])
    infer_node(node)
    target = target_for(isa, 2)
    (offer,) = offers(node, target)
    problem = integer_product_of(node)
    assert not isinstance(problem, Refusal), problem
    words = dataclasses.replace(
        offer, bind=lambda *views: bind(problem, Form.WORDS, isa_named(isa), 2, *views), scratch=1 << 16
    )
    for found in (run_offer(node, each, [a, b, zero], target)[0] for each in (offer, words)):
        np.testing.assert_array_equal(found, product(a, b, zero))


def test_refusals():
    a, b = np.zeros((3, 4), U8), np.zeros((4, 5), U8)
    target = target_for(RUNNABLE[0])
    for inputs, constants, reason in [
        ([a, b], [], "second factor is not a constant"),
        ([a, b, None, np.zeros(5, U8)], [1], "zero point of its second factor is not a constant"),
        ([np.zeros((3, 3, 4), U8), b, np.zeros((3, 3, 1), U8)], [1], "one for each row"),
    ]:
        node = make_node("MatMulInteger", inputs, constants=constants)
        infer_node(node)
        answer = offers(node, target)
        assert isinstance(answer, Refusal) and reason in answer.reason


@every_isa
def test_dynamic_quantisation(isa):
    rng = np.random.default_rng(5)
    cases = [rng.standard_normal(n).astype(np.float32) for n in (0, 1, 3, 64, 65, 1001, 5000)]
    cases += [np.abs(cases[4]), -np.abs(cases[4]), np.zeros(70, np.float32), np.full((3, 5), -2, np.float32)]
    cases += [
        cases[4] * np.float32(1e-38),
        cases[4] * np.float32(1e37),
        rng.integers(-127, 129, 500).astype(np.float32),
    ]
    # Quotients that lie half-way between two numbers.
    cases += [np.concatenate([np.arange(-127.5, 127.5, 0.5), [-127.5, 127.5]]).astype(np.float32)]
    for x in cases:
        for threads in (1, 3):
            check(offers, "DynamicQuantizeLinear", [x], isa=isa, threads=threads, outputs=3)


VNNI = {
    "avx512": dataclasses.replace(ISAS["avx512"], features=ISAS["avx512"].features + ",+avx512vnni"),
    "avx2": dataclasses.replace(ISAS["avx2"], features="+avxvnni"),
}


@pytest.mark.parametrize("isa", [*ISAS.values(), *VNNI.values()], ids=[*ISAS, *(f"{name}-vnni" for name in VNNI)])
def test_assembles(isa):
    form = form_for(isa)
    assert form is (Form.BYTES if isa in VNNI.values() else Form.WORDS)
    node = make_node("MatMulInteger", [np.zeros((5, 6), U8), np.zeros((6, 7), U8)], constants=[1])
    infer_node(node)
    problem = integer_product_of(node)
    assert not isinstance(problem, Refusal), problem
    epilogue = Epilogue(problem.product.region, (), node.output)
    corrected = form is Form.BYTES
    kernels = [operand.build(operand.Structure(form, True, corrected), isa)]
    kernels += [quantise.range_kernel(isa), quantise.bytes_kernel(isa)]
    for rows in (1, 4, 128):
        s = kernel.Structure(form, choose_rows(isa, rows).tile, corrected, True, corrected)
        kernels.append(kernel.build(s, epilogue, isa))
    assert all(len(jit().object_code(each.module())) > 200 for each in kernels)


@every_isa
@every_pair
def test_epilogues(types, isa):
    """Scales, bias and activation behind the sums, for one or several rows and any tail of columns."""
    rng = np.random.default_rng(6)
    for m, k, n in [(1, 8, 5), (13, 20, 40), (40, 33, 67)]:
        a, b, zero = numbers(rng, types[0], m, k), numbers(rng, types[1], k, n), numbers(rng, types[0])
        scale, bias = np.float32(0.003) + np.zeros((), np.float32), rng.standard_normal(n).astype(np.float32)
        residual = rng.standard_normal((m, n)).astype(np.float32)

        def layer(g, a, b, zero, scale, bias, residual):
            real = g("Cast", g("MatMulInteger", a, b, zero), to=np.dtype(np.float32))
            return g("Relu", g("Add", g("Add", g("Mul", real, scale), bias), residual))

        for each in (scale, np.abs(bias) / 100):
            arrays = [a, b, zero, each, bias, residual]
            check_node(offers, fused("integer_matmul", layer, arrays, [1]), arrays, isa=isa, threads=2)


@every_isa
@every_pair
@pytest.mark.parametrize("result", [U8, S8], ids=["to-u8", "to-s8"])
def test_quantised_results(types, result, isa):
    """Half-way cases go to even, what is too large saturates: exactly as one operator after the other."""
    rng = np.random.default_rng(7)
    a, b = numbers(rng, types[0], 21, 30), numbers(rng, types[1], 30, 50)
    zero, after = numbers(rng, types[0]), numbers(rng, result)
    for factor in (np.float32(0.5), np.float32(0.0037), np.exp2(rng.integers(-12, 0, 50)).astype(np.float32)):

        def layer(g, a, b, zero, factor, after):
            real = g("Cast", g("MatMulInteger", a, b, zero), to=np.dtype(np.float32))
            return g("QuantizeLinear", g("Mul", real, factor), 1.0, after)

        arrays = [a, b, zero, np.asarray(factor), after]
        check_node(offers, fused("integer_matmul", layer, arrays, [1, 3, 4]), arrays, isa=isa, threads=2)
