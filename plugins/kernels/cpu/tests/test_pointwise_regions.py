"""Regions of pointwise operators: in place, refused, and for all shapes by one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.kernels import Refusal
from autofusion_kernels_cpu.pointwise.offers import offers
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check, check_node, make_node, node_with_type, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("threads", [1, 2])
def test_region(threads, isa):
    """Several operands and results, a constant inside the body, values that do not change along a row."""
    rng = np.random.default_rng(0)
    for shape in [(5, 77), (2, 20, 6, 5)]:
        channel = (1, *shape[1:2], *[1] * (len(shape) - 2))
        x, r = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape).astype(np.float32)
        s = rng.standard_normal(channel if len(shape) > 2 else shape[1:]).astype(np.float32)
        inner = rng.standard_normal(s.shape).astype(np.float32)

        def build(b, x, s, r, inner=inner):
            y = b("Add", b("Mul", x, b("Exp", s)), inner)
            z = b("Relu", b("Add", y, r))
            return [z, b("Mul", z, 0.5), y]

        node = fused("pointwise", build, [x, s, r], constants=[1])
        check_node(offers, node, [x, s, r], isa=isa, threads=threads, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_in_place(isa):
    """What an offer lists as in place gives the same when the memory is shared."""
    from autofusion.ir.types import of_array
    from autofusion.kernels import BindContext
    from autofusion_kernels_cpu.native.pool import pool
    from autofusion_kernels_cpu.native.program import Program
    from plugins.kernels.cpu.tests.kernel_harness import Placed
    from plugins.kernels.cpu.tests.native_support import Arena, aligned

    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((3, 20, 5, 9)).astype(np.float32) for _ in range(2))
    node = fused("pointwise", lambda b, x, y: b("Tanh", b("Add", x, b("Mul", y, y))), [x, y])
    target = target_for(isa, 2)
    made = offers(node, target)
    assert not isinstance(made, Refusal)
    for offer in made:
        assert set(offer.inplace) == {(0, 0), (0, 1)}
        for _, shared in offer.inplace:
            placed = [
                Placed(of_array(a), o, constant=False, hostile=False, writer=True)
                for a, o in zip((x, y), offer.inputs, strict=True)
            ]
            for p, a in zip(placed, (x, y), strict=True):
                p.fill(a)
            kernel = offer.bind(BindContext(target, {}), [p.view for p in placed], [placed[shared].view])
            Program(pool(2), [kernel], Arena(aligned(1))).run()
            np.testing.assert_allclose(placed[shared].read(), np.tanh(x + y * y), rtol=2e-6, atol=1e-7)


def test_refusals():
    target = target_for(RUNNABLE[0])
    x, y = np.zeros((2, 3), np.float32), np.zeros((3,), np.float32)
    # A result smaller than what the region runs over.
    node = fused("pointwise", lambda b, x, y: [b("Add", x, y), b("Exp", y)], [x, y])
    made = offers(node, target)
    assert isinstance(made, Refusal)
    assert "[3]" in made.reason
    node = fused("pointwise", lambda b, x: b("Softmax", x), [x])
    made = offers(node, target)
    assert isinstance(made, Refusal)
    assert "Softmax" in made.reason
    node = make_node("Exp", [x.astype(np.float64)])
    made = offers(node_with_type(node, x.astype(np.float64)), target)
    assert isinstance(made, Refusal)
    assert "f64" in made.reason


def test_shapes_do_not_recompile():
    """Sizes, strides and ranks are parameters: after the first shape nothing is compiled."""
    from autofusion_kernels_cpu.native.jit import jit

    isa = RUNNABLE[0]
    rng = np.random.default_rng(0)

    def run(shape, other):
        a, b = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(other).astype(np.float32)
        check(offers, "Add", [a, b], isa=isa)

    run((3, 5, 40), (40,))
    run((3, 5, 40), (5, 1))
    run((2, 3, 4, 5), (4, 1))
    before = jit().counters.snapshot()
    for shape, other in [((7, 9, 50), (50,)), ((2, 2, 2, 2, 33), (2, 33)), ((3, 9, 7, 6), (7, 1)), ((1, 9), (9,))]:
        run(shape, other)
    after = jit().counters
    assert (after.compiled, after.cached) == (before.compiled, before.cached)
