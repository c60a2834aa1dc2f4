"""Reorders between layouts keep every element, and write nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import of_array
from autofusion.kernels import PLAIN, Layout, Operand
from autofusion_kernels_cpu.reorder import reorder_offer
from plugins.kernels.cpu.tests.kernel_harness import make_node, run_offer, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

SHAPES = [(1, 1, 1, 1), (1, 3, 5, 7), (2, 16, 4, 4), (3, 17, 3, 19), (1, 40, 1, 1), (2, 7, 9), (1, 5, 2, 3, 4)]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("blocked", [(0, 1), (1, 0), (1, 1), (0, 0)])
def test_reorder_copies_exactly(isa, threads, shape, blocked):
    target = target_for(isa, threads)
    layouts = [Layout(target.lanes) if b else PLAIN for b in blocked]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    node = make_node("Identity", [x])
    node.output.type = of_array(x)
    offer = reorder_offer(of_array(x), Operand(layouts[0]), Operand(layouts[1]), target)
    assert offer is not None
    for hostile in (True, False):
        (found,) = run_offer(node, offer, [x], target, hostile=hostile)
        assert np.array_equal(found, x)


def test_what_it_cannot_copy():
    target = target_for(RUNNABLE[0])
    matrix = of_array(np.zeros((3, 4), np.float32))
    image = of_array(np.zeros((1, 20, 3, 4), np.float32))
    strings = of_array(np.array([["a"]], dtype=object))
    assert reorder_offer(matrix, Operand(), Operand(Layout(16)), target) is None
    assert reorder_offer(image, Operand(Layout(8)), Operand(Layout(16)), target) is None
    assert reorder_offer(strings, Operand(), Operand(), target) is None
