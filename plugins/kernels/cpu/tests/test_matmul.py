"""Matrix products against double precision: shapes, broadcasting, transposition, epilogues, threads."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import of_array
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.matmul.offers import offers
from autofusion_kernels_cpu.matmul.tile import choose_rows, panels_for, vectors_of
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check, check_node, make_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE, isa_named

rng = np.random.default_rng(0)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def exact(a, b):
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


def tolerance(k):
    return {"rtol": 1e-5, "atol": 2e-6 * max(k, 1) ** 0.5}


SHAPES = [
    ((1, 7), (7, 5)),
    ((1, 64), (64, 200)),
    ((2, 3), (3, 33)),
    ((3, 40), (40, 64)),
    ((5, 17), (17, 1)),
    ((7, 1), (1, 40)),
    ((13, 33), (33, 31)),
    ((128, 96), (96, 100)),
    ((29, 64), (64, 256)),
    ((0, 3), (3, 4)),
    ((4, 0), (0, 9)),
    ((2, 3), (3, 0)),
    ((5,), (5,)),
    ((5,), (5, 36)),
    ((36, 5), (5,)),
    ((2, 3, 20), (20, 40)),
    ((2, 3, 4, 20), (20, 40)),
    ((3, 4, 20), (3, 20, 40)),
    ((2, 3, 4, 20), (2, 3, 20, 40)),
    ((2, 1, 4, 20), (3, 20, 40)),
    ((4, 20), (2, 3, 20, 40)),
    ((2, 3, 1, 20), (2, 3, 20, 40)),
    ((1, 3, 1, 20), (2, 1, 20, 40)),
    ((20,), (2, 3, 20, 8)),
    ((2, 3, 8, 20), (20,)),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "dynamic"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul(shapes, constant, isa):
    a, b = array(*shapes[0]), array(*shapes[1])
    for threads in (1, 2, 3):
        check(
            offers,
            "MatMul",
            [a, b],
            isa=isa,
            threads=threads,
            constants=[1] if constant else [],
            expected=[exact(a, b)],
            **tolerance(a.shape[-1]),
        )


@pytest.mark.parametrize("isa", RUNNABLE)
def test_every_number_of_rows(isa):
    """Two heights of tiles cover any number of rows."""
    b = array(24, 40)
    for m in [*range(1, 60), 100, 197]:
        a = array(m, 24)
        check(offers, "MatMul", [a, b], isa=isa, constants=[1], expected=[exact(a, b)], **tolerance(24))
        rows = choose_rows(isa_named(isa), m)
        assert rows.tall * rows.tile.rows + rows.short * (rows.tile.rows - 1) == m


@pytest.mark.parametrize("name", ["avx512", "avx2", "neon"])
def test_tiles_fit_in_registers(name):
    isa = isa_named(name)
    for m in range(1, 300):
        tile = choose_rows(isa, m).tile
        wide = tile.panels * vectors_of(isa)
        assert tile.panels == panels_for(isa, tile.rows)
        # A row of its own takes each vector of B from memory.
        assert tile.rows * wide + (wide if tile.rows > 1 else 0) + 1 <= isa.registers, (m, tile)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(transposed, isa):
    m, k, n = 19, 37, 43
    a = array(k, m) if transposed[0] else array(m, k)
    b = array(n, k) if transposed[1] else array(k, n)
    product = exact(a.T if transposed[0] else a, b.T if transposed[1] else b)
    attrs = {"transA": transposed[0], "transB": transposed[1]}
    for c_shape in [None, (n,), (1, n), (m, 1), (m, n), (1,), ()]:
        c = None if c_shape is None else array(*c_shape)
        for alpha, beta in [(1.0, 1.0), (0.5, -2.0)]:
            wanted = np.float32(alpha) * product + (0 if c is None else np.float32(beta) * c)
            for constants in ([], [1], [1, 2]):
                if c is None and 2 in constants:
                    continue
                check(
                    offers,
                    "Gemm",
                    [a, b] if c is None else [a, b, c],
                    {**attrs, "alpha": alpha, "beta": beta},
                    isa=isa,
                    threads=2,
                    constants=constants,
                    expected=[wanted.astype(np.float32)],
                    **tolerance(k),
                )


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_epilogue(threads, isa):
    """Bias, activation, residual, a factor for each row, several results."""
    for lead in [(9,), (2, 9)]:
        a, w, bias = array(*lead, 40), array(40, 70), array(70)
        residual, scale = array(*lead, 70), array(*lead, 1)

        def build(b, a, w, bias, residual, scale):
            y = b("Add", b("MatMul", a, w), bias)
            z = b("Add", b("Gelu", y), residual)
            return [b("Mul", z, scale), y]

        arrays = [a, w, bias, residual, scale]
        for constants in ([1, 2], [1], []):
            node = fused("matmul", build, arrays, constants)
            check_node(offers, node, arrays, isa=isa, threads=threads, rtol=2e-5, atol=3e-5)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_gemm_epilogue_with_constants_in_the_body(isa):
    a, w, bias = array(6, 24), array(48, 24), array(48)

    def build(b, a):
        y = b("Gemm", a, w, bias, transB=1)
        return b("Relu", b("Mul", y, 0.5))

    check_node(offers, fused("matmul", build, [a]), [a], isa=isa, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_results_do_not_depend_on_threads(isa):
    from plugins.kernels.cpu.tests.kernel_harness import run_offer

    a, b = array(67, 150), array(150, 230)
    node = make_node("MatMul", [a, b], constants=[1])
    node.output.type = of_array(a @ b)
    results = []
    for threads in (1, 2, 3, 4):
        target = target_for(isa, threads)
        made = offers(node, target)
        assert not isinstance(made, Refusal)
        results.append(run_offer(node, made[0], [a, b], target)[0])
    for other in results[1:]:
        assert (other == results[0]).all()


@pytest.mark.parametrize("isa", RUNNABLE)
def test_nan_stays_in_its_row_and_column(isa):
    a, b = array(5, 8), array(8, 35)
    a[2, 3], b[4, 33] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        wanted = exact(a, b)
    for constants in ([], [1]):
        check(offers, "MatMul", [a, b], isa=isa, constants=constants, expected=[wanted], rtol=1e-5, atol=1e-5)


def test_residual_in_place_but_never_a_factor():
    a, w = array(6, 24), array(24, 24)
    node = fused("matmul", lambda b, a, w, r: b("Add", b("MatMul", a, w), r), [a, w, a], [1])
    made = offers(node, target_for(RUNNABLE[0]))
    assert not isinstance(made, Refusal)
    assert made[0].inplace == ((0, 2),)
    node = fused("matmul", lambda b, a, w: b("Add", b("MatMul", a, w), a), [a, w], [1])
    made = offers(node, target_for(RUNNABLE[0]))
    assert not isinstance(made, Refusal)
    assert made[0].inplace == ()


def test_refusals():
    target = target_for(RUNNABLE[0])
    a, b = array(3, 4), array(4, 5)
    for build, word in [
        (lambda f, a, b: f("MatMul", f("Relu", a), b), "inside"),
        (lambda f, a, b: f("Softmax", f("MatMul", a, b)), "Softmax"),
        (lambda f, a, b: f("Add", f("MatMul", a, b), np.zeros((2, 3, 5), np.float32)), "not as large"),
    ]:
        made = offers(fused("matmul", build, [a, b]), target)
        assert isinstance(made, Refusal)
        assert word in made.reason
    node = make_node("MatMul", [a.astype(np.float64), b.astype(np.float64)])
    node.output.type = of_array(a.astype(np.float64) @ b)
    made = offers(node, target)
    assert isinstance(made, Refusal)
    assert "float64" in made.reason


def test_a_new_batch_compiles_nothing():
    from autofusion_kernels_cpu.native.jit import jit

    isa = RUNNABLE[0]
    b = array(40, 50)

    def run(*shape):
        a = array(*shape, 40)
        check(offers, "MatMul", [a, b], isa=isa, constants=[1], expected=[exact(a, b)], **tolerance(40))

    for m in range(1, 15):
        run(m)
    before = jit().counters.snapshot()
    for shape in [(31,), (157,), (3, 41), (2, 3, 5)]:
        run(*shape)
    assert (jit().counters.compiled, jit().counters.cached) == (before.compiled, before.cached)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    ("a", "a_perm", "b", "b_perm"),
    [
        ((2, 3, 9, 24), [0, 1, 2, 3], (2, 3, 40, 24), [0, 1, 3, 2]),
        ((2, 3, 24, 9), [0, 1, 3, 2], (2, 3, 24, 40), [0, 1, 2, 3]),
        ((2, 9, 3, 24), [0, 2, 1, 3], (2, 40, 3, 24), [0, 2, 3, 1]),
        ((9, 24, 5), [2, 0, 1], (5, 40, 24), [0, 2, 1]),
        ((4, 9, 1), [0, 1, 2], (4, 7, 1), [0, 2, 1]),
    ],
    ids=str,
)
def test_factors_are_transposed_and_scaled_as_they_are_read(a, a_perm, b, b_perm, isa):
    arrays = [array(*a), array(*b)]

    def build(f, x, y):
        x, y = f("Mul", f("Transpose", x, perm=a_perm), 0.5), f("Transpose", f("Div", y, 3.0), perm=b_perm)
        return f("Relu", f("MatMul", x, y))

    check_node(offers, fused("matmul", build, arrays), arrays, isa=isa, threads=2, **tolerance(24))


def test_a_factor_that_would_have_to_be_copied_is_refused():
    def build(f, x, y):
        return f("MatMul", x, f("Transpose", y, perm=[2, 1, 0]))

    made = offers(fused("matmul", build, [array(4, 9, 24), array(40, 24, 4)]), target_for(RUNNABLE[0]))
    assert isinstance(made, Refusal) and "adjacent" in made.reason
