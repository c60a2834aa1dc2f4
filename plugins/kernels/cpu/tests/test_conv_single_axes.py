"""Convolutions whose last axes have one element: the same numbers, by kernels that work along an axis that has more."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import of_array
from autofusion_kernels_cpu.conv.geometry import geometry_of
from autofusion_kernels_cpu.conv.offers import offers
from plugins.kernels.cpu.tests.conv_support import TOLERANCE, conv, conv_transpose, operands
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check, check_node, make_node
from plugins.kernels.cpu.tests.native_support import RUNNABLE

# Operator, shape, weights, attributes, a kernel that must be among the offers.
CASES = [
    ("Conv", (2, 20, 37, 1), (40, 20, 5, 1), {}, "conv.direct"),
    ("Conv", (2, 20, 37, 1), (40, 20, 3, 1), {"pads": [2, 0, 1, 0], "strides": [2, 3]}, "conv.direct"),
    ("Conv", (1, 18, 9, 1, 1), (33, 18, 3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}, "conv.direct"),
    ("Conv", (1, 18, 4, 9, 1), (34, 9, 2, 3, 1), {"group": 2, "dilations": [1, 2, 1]}, "conv.direct"),
    ("Conv", (2, 16, 1, 9, 1), (16, 16, 1, 3, 1), {"pads": [0, 1, 0, 0, 1, 0]}, "conv.direct"),
    ("Conv", (2, 20, 1, 1), (40, 20, 1, 1), {}, "conv.direct"),
    ("Conv", (2, 20, 7, 1), (20, 1, 3, 1), {"group": 20, "pads": [1, 0, 1, 0]}, "conv.depthwise"),
    ("Conv", (2, 3, 37, 1), (24, 3, 5, 1), {"pads": [2, 0, 2, 0]}, "conv.image"),
    ("Conv", (2, 3, 6, 37, 1), (24, 3, 3, 5, 1), {"pads": [1, 2, 0, 1, 2, 0]}, "conv.planar"),
    ("Conv", (1, 20, 11, 9, 1), (40, 20, 3, 3, 1), {"pads": [1, 0, 0, 1, 1, 0]}, "conv.direct"),
    ("Conv", (2, 24, 31, 1), (2, 24, 3, 1), {"pads": [1, 0, 0, 0]}, "conv.narrow"),
    ("ConvTranspose", (2, 24, 9, 1), (24, 2, 4, 1), {"strides": [2, 3]}, "conv.direct"),
    ("ConvTranspose", (2, 24, 9, 1), (24, 17, 3, 1), {"strides": [2, 1], "pads": [1, 0, 0, 0]}, "conv.direct"),
    ("ConvTranspose", (1, 5, 9, 1), (5, 17, 3, 1), {"strides": [2, 2], "output_padding": [0, 1]}, "conv.direct"),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(("op", "shape", "weights", "attrs", "kernel"), CASES)
def test_single_axes(isa, op, shape, weights, attrs, kernel):
    rng = np.random.default_rng(7)
    filters = weights[0] if op == "Conv" else weights[1] * attrs.get("group", 1)
    arrays = operands(rng, shape, weights, filters)
    wanted = (conv if op == "Conv" else conv_transpose)(*arrays, **attrs).astype(np.float32)
    options = {"isa": isa, "threads": 2, "constants": (1, 2), "expected": [wanted], "kernels": [kernel]}
    check(offers, op, arrays, attrs, **options, **TOLERANCE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("weights", [(40, 20, 3, 1), (2, 20, 3, 1)])
def test_epilogues(isa, constant, weights):
    rng = np.random.default_rng(8)
    arrays = operands(rng, (2, 20, 19, 1), weights, weights[0])
    for shape in ((2, weights[0], 17, 1), (2, weights[0], 1, 1), (weights[0], 1, 1)):
        arrays.append(rng.standard_normal(shape).astype(np.float32))

    def build(b, x, w, c, residual, gate, slope):
        return b("PRelu", b("Mul", b("Add", b("Conv", x, w, c), residual), gate), slope)

    node = fused("conv", build, arrays, constants=(1, 2, 5, *((3, 4) if constant else ())))
    y = conv(*arrays[:3]) + arrays[3]
    y = y * arrays[4]
    wanted = np.where(y < 0, y * arrays[5], y).astype(np.float32)
    check_node(offers, node, arrays, isa=isa, threads=2, expected=[wanted], **TOLERANCE)


def test_single_axes_lead():
    def sizes(shape, weights, **attrs):
        arrays = operands(np.random.default_rng(0), shape, weights, weights[0])
        node = make_node("Conv", arrays, attrs, (1, 2), 1)
        node.outputs[0].type = of_array(conv(*arrays, **attrs).astype(np.float32))
        turned = geometry_of(node).turned()
        assert turned.border == geometry_of(node).border
        return [axis.size for axis in turned.axes]

    assert sizes((1, 2, 7, 1), (3, 2, 3, 1), pads=[2, 0, 1, 0]) == [1, 1, 7]
    assert sizes((1, 2, 7, 1, 1), (3, 2, 3, 1, 1)) == [1, 1, 7]
    assert sizes((1, 2, 7, 4, 1), (3, 2, 3, 1, 1)) == [1, 7, 4]
    assert sizes((1, 2, 7, 1), (3, 2, 3, 3), pads=[1, 1, 0, 1]) == [1, 7, 1]
    assert sizes((1, 2, 1, 1), (3, 2, 1, 1)) == [1, 1, 1]
