"""Attention against the reference kernels: lengths, masks, forms of K, threads."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.kernels import Refusal
from autofusion_kernels_cpu.attention.offers import offers
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

rng = np.random.default_rng(0)
CLOSE = {"rtol": 2e-5, "atol": 5e-6}


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def plain(b, q, k, v):
    return b("MatMul", b("Softmax", b("MatMul", q, k), axis=-1), v)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("queries", "keys", "depth", "width"),
    [(5, 7, 3, 9), (16, 32, 16, 32), (1, 40, 20, 33), (33, 1, 8, 8), (29, 70, 64, 64), (15, 100, 1, 1)],
)
def test_lengths(queries, keys, depth, width, threads, isa):
    for batch in [(), (3,), (2, 3)]:
        q = array(*batch, queries, depth) / np.float32(depth**0.5)
        k, v = array(*batch, depth, keys), array(*batch, keys, width)
        check_node(offers, fused("attention", plain, [q, k, v]), [q, k, v], isa=isa, threads=threads, **CLOSE)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_scales_and_transposed_keys(isa):
    q, k, v = array(2, 3, 9, 24), array(2, 3, 40, 24), array(2, 3, 40, 24)
    perm = [0, 1, 3, 2]

    def on_scores(b, q, k, v):
        s = b("Mul", b("MatMul", q, b("Transpose", k, perm=perm)), 0.2)
        return b("MatMul", b("Softmax", s, axis=3), v)

    def on_both(b, q, k, v):
        s = b("MatMul", b("Mul", 0.5, q), b("Transpose", b("Mul", k, 0.5), perm=perm))
        return b("MatMul", b("Softmax", s, axis=-1), v)

    def on_transposed(b, q, k, v):
        s = b("MatMul", b("Div", q, 2.0), b("Div", b("Transpose", k, perm=perm), 3.0))
        return b("MatMul", b("Softmax", b("Div", s, 1.5), axis=-1), v)

    for build in (on_scores, on_both, on_transposed):
        check_node(offers, fused("attention", build, [q, k, v]), [q, k, v], isa=isa, threads=2, **CLOSE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    "shape", [(2, 3, 9, 40), (2, 1, 9, 40), (2, 1, 1, 40), (9, 40), (1, 40), (1,), (2, 3, 9, 1), (3, 9, 40)], ids=str
)
def test_masks(shape, isa):
    q, k, v = array(2, 3, 9, 24), array(2, 3, 24, 40), array(2, 3, 40, 24)
    mask = np.where(rng.random(shape) < 0.4, -1e9, 0).astype(np.float32)

    def build(b, q, k, v, mask):
        s = b("Add", b("Mul", b("MatMul", q, k), 0.2), mask)
        return b("MatMul", b("Softmax", s, axis=-1), v)

    for constants in ([], [3]):
        node = fused("attention", build, [q, k, v, mask], constants)
        check_node(offers, node, [q, k, v, mask], isa=isa, threads=2, **CLOSE)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_where_mask_and_rows_that_are_masked_out(isa):
    q, k, v = array(3, 9, 24), array(3, 24, 40), array(3, 40, 24)
    mask = rng.random((9, 40)) < 0.5
    mask[4] = False

    def build(b, q, k, v, mask):
        s = b("Where", mask, b("MatMul", q, k), b.constant(-np.inf))
        return b("MatMul", b("Softmax", s, axis=-1), v)

    check_node(offers, fused("attention", build, [q, k, v, mask]), [q, k, v, mask], isa=isa, **CLOSE)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_broadcast_heads_and_large_scores(isa):
    q, k, v = array(2, 4, 6, 16) * 30, array(2, 1, 16, 50), array(2, 1, 50, 16)
    check_node(offers, fused("attention", plain, [q, k, v]), [q, k, v], isa=isa, threads=2, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_long_sequences_do_not_depend_on_threads(isa):
    from plugins.kernels.cpu.tests.kernel_harness import run_offer

    arrays = [array(1, 150, 32), array(1, 32, 700), array(1, 700, 40)]
    node = fused("attention", plain, arrays)
    found = []
    for threads in (1, 2, 3, 4):
        target = target_for(isa, threads)
        made = offers(node, target)
        assert not isinstance(made, Refusal)
        found.append(run_offer(node, made[0], arrays, target)[0])
    for other in found[1:]:
        assert (other == found[0]).all()


def test_refusals():
    target = target_for(RUNNABLE[0])
    q, k, v = array(2, 5, 4), array(2, 4, 6), array(2, 6, 4)
    for build, word in [
        (lambda b, q, k, v: b("MatMul", b("Softmax", b("MatMul", q, k), axis=1), v), "along the keys"),
        (lambda b, q, k, v: b("MatMul", b("Softmax", b("MatMul", b("Exp", q), k)), v), "inside"),
        (lambda b, q, k, v: b("Relu", plain(b, q, k, v)), "not a product"),
    ]:
        made = offers(fused("attention", build, [q, k, v]), target)
        assert isinstance(made, Refusal)
        assert word in made.reason


@pytest.mark.parametrize("isa", RUNNABLE)
def test_guards_and_head_masks_on_the_probabilities(isa):
    q, k, v = array(2, 3, 9, 24), array(2, 3, 24, 40), array(2, 3, 40, 33)
    mask = rng.random((2, 1, 9, 40)) < 0.5
    mask[0, 0, 4] = False  # a query without keys: NaN but for the guard
    heads, dropped = array(3, 1, 1), (rng.random((2, 3, 9, 40)) < 0.7).astype(np.float32)

    def guarded(b, q, k, v, mask, heads, dropped):
        s = b("Where", mask, b("Mul", b("MatMul", q, k), 0.2), b.constant(-np.inf))
        p = b("Softmax", s, axis=-1)
        p = b("Where", b("IsNaN", p), b.constant(0.0), p)
        return b("MatMul", b("Mul", b("Mul", p, heads), dropped), v)

    def unguarded(b, q, k, v, mask, heads, dropped):
        p = b("Softmax", b("Where", mask, b("MatMul", q, k), b.constant(-np.inf)), axis=-1)
        return b("MatMul", b("Mul", b("Mul", p, heads), dropped), v)

    arrays = [q, k, v, mask, heads, dropped]
    for build in (guarded, unguarded):
        check_node(offers, fused("attention", build, arrays), arrays, isa=isa, threads=2, **CLOSE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(("queries", "keys", "heads", "depth", "width"), [(9, 40, 3, 24, 33), (1, 1, 2, 1, 1)], ids=str)
def test_heads_are_walked_over_where_they_lie(queries, keys, heads, depth, width, isa):
    arrays = [array(2, queries, heads, depth), array(2, keys, heads, depth), array(2, keys, heads, width)]

    def build(b, q, k, v):
        s = b("MatMul", b("Transpose", q, perm=[0, 2, 1, 3]), b("Mul", b("Transpose", k, perm=[0, 2, 3, 1]), 0.3))
        y = b("MatMul", b("Softmax", s, axis=-1), b("Transpose", v, perm=[0, 2, 1, 3]))
        return b("Transpose", y, perm=[0, 2, 1, 3])

    check_node(offers, fused("attention", build, arrays), arrays, isa=isa, threads=2, **CLOSE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(("queries", "keys", "width"), [(9, 40, 70), (33, 17, 1), (1, 5, 16), (20, 1, 9)], ids=str)
def test_channels_first(queries, keys, width, isa):
    arrays = [array(2, 3, 8, queries), array(2, 3, 8, keys), array(2, 3, width, keys)]
    perm = [0, 1, 3, 2]

    def build(b, q, k, v):
        s = b("MatMul", b("Transpose", q, perm=perm), k)
        return b("Transpose", b("MatMul", b("Softmax", s, axis=-1), b("Transpose", v, perm=perm)), perm=perm)

    check_node(offers, fused("attention", build, arrays), arrays, isa=isa, threads=2, **CLOSE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("behind", [True, False])
def test_keys_and_values_that_several_heads_share(behind, isa):
    arrays = [array(2, 6, 9, 24), array(2, 2, 40, 24), array(2, 2, 40, 16), array(2, 6, 9, 40)]
    place = 2 if behind else 1

    def build(b, q, k, v, mask):
        def repeated(x, size):
            x = b("Unsqueeze", x, np.array([place]))
            sizes = [2, 2, 2, 40, size]
            sizes[place] = 3
            return b("Reshape", b("Expand", x, np.array(sizes)), np.array([2, 6, 40, size]))

        s = b("MatMul", q, b("Transpose", repeated(k, 24), perm=[0, 1, 3, 2]))
        return b("MatMul", b("Softmax", b("Add", s, mask), axis=-1), repeated(v, 16))

    check_node(offers, fused("attention", build, arrays), arrays, isa=isa, threads=2, **CLOSE)


def test_movement_that_needs_a_copy_is_refused():
    arrays = [array(2, 9, 24), array(2, 24, 40), array(2, 5, 16, 8)]

    def build(b, q, k, v):
        v = b("Reshape", b("Transpose", v, perm=[0, 2, 3, 1]), np.array([2, 40, 16]))
        return b("MatMul", b("Softmax", b("MatMul", q, k), axis=-1), v)

    made = offers(fused("attention", build, arrays), target_for(RUNNABLE[0]))
    assert isinstance(made, Refusal) and "V" in made.reason
