"""Convolutions with few output channels into plain tensors: phases and channels as lanes, epilogues over whole rows."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

from autofusion.kernels import PLAIN
from autofusion_kernels_cpu.codegen.epilogue import NO_EPILOGUE
from autofusion_kernels_cpu.codegen.isa import NEON
from autofusion_kernels_cpu.conv import narrow
from autofusion_kernels_cpu.conv.geometry import Axis
from autofusion_kernels_cpu.conv.kernel import kernel as conv_kernel
from autofusion_kernels_cpu.conv.narrow import taps_of
from autofusion_kernels_cpu.conv.offers import offers
from autofusion_kernels_cpu.conv.products import Interleave, Structure
from autofusion_kernels_cpu.conv.tiles import widths
from autofusion_kernels_cpu.native.jit import jit
from plugins.kernels.cpu.tests.conv_support import TOLERANCE, conv, conv_transpose, operands
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check, check_node, run_offer, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

NAME = ["conv.narrow"]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("filters", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 16, 24, 35])
@pytest.mark.parametrize("width", [1, 5, 20, 37])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (3, 2)])
def test_few_filters(isa, filters, channels, width, kernel, stride):
    rng = np.random.default_rng(0)
    arrays = operands(rng, (2, channels, 6, width), (filters, channels, kernel, kernel), filters)
    attrs = {"strides": [stride, stride], "pads": [kernel // 2, kernel // 2, 0, kernel // 2]}
    if kernel == 3:
        attrs["pads"][2] = 1
    wanted = conv(*arrays, **attrs).astype(np.float32)
    options = {"isa": isa, "threads": 2, "constants": (1, 2), "expected": [wanted], "kernels": NAME}
    check(offers, "Conv", arrays, attrs, **options, **TOLERANCE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("filters", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "attrs"),
    [
        ((2, 2), {"strides": [2, 2]}),
        ((1, 2), {"strides": [1, 2]}),
        ((4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ((2, 2), {"strides": [2, 2], "pads": [1, 0, 1, 2]}),
        ((1, 1), {"strides": [2, 2], "output_padding": [1, 1]}),
        ((2, 2), {"strides": [1, 2], "dilations": [2, 1], "pads": [1, 0, 1, 0]}),
    ],
)
def test_phases_are_lanes(isa, filters, kernel, attrs):
    rng = np.random.default_rng(1)
    arrays = operands(rng, (2, 19, 5, 23), (19, filters, *kernel), filters)
    wanted = conv_transpose(*arrays, **attrs).astype(np.float32)
    fits = filters * np.prod(attrs["strides"]) <= target_for(isa).lanes
    options = {"isa": isa, "threads": 3, "constants": (1, 2), "expected": [wanted], "kernels": NAME if fits else []}
    check(offers, "ConvTranspose", arrays, attrs, **options, **TOLERANCE)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_other_ranks(isa):
    rng = np.random.default_rng(2)
    for op, shape, weights, attrs in (
        ("Conv", (2, 20, 31), (2, 20, 5), {"pads": [2, 2]}),
        ("Conv", (1, 20, 4, 5, 6), (2, 20, 3, 1, 3), {"pads": [1, 0, 1, 1, 0, 1], "strides": [2, 1, 1]}),
        ("Conv", (2, 20, 3, 4, 5), (1, 20, 1, 1, 1), {}),
        ("ConvTranspose", (2, 20, 9), (20, 2, 4), {"strides": [4]}),
        ("ConvTranspose", (1, 20, 3, 4, 5), (20, 1, 1, 2, 2), {"strides": [1, 2, 2]}),
    ):
        filters = weights[0] if op == "Conv" else weights[1]
        arrays = operands(rng, shape, weights, filters)
        wanted = (conv if op == "Conv" else conv_transpose)(*arrays, **attrs).astype(np.float32)
        phases = np.prod(attrs["strides"]) if op == "ConvTranspose" else 1
        kernels = NAME if filters * phases <= target_for(isa).lanes else []
        options = {"isa": isa, "threads": 2, "constants": (1, 2), "expected": [wanted], "kernels": kernels}
        check(offers, op, arrays, attrs, **options, **TOLERANCE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("width", [3, 16, 45])
def test_epilogues_run_over_rows(isa, width):
    rng = np.random.default_rng(3)
    arrays = operands(rng, (2, 21, 4, width), (21, 2, 2, 2), 2)
    slope = rng.standard_normal((2, 1, 1)).astype(np.float32)
    full = rng.standard_normal((2, 2, 8, 2 * width)).astype(np.float32)
    for shape in ((2, 2, 8, 2 * width), (2, 2, 1, 1), (1, 2, 1, 1), (1,)):
        arrays.append(rng.standard_normal(shape).astype(np.float32))

    def build(b, x, w, c, residual, gate, scale, limit):
        y = b("Add", b("ConvTranspose", x, w, c, strides=[2, 2]), residual)
        y = b("Min", b("Mul", b("Mul", y, gate), scale), limit)
        return b("Sigmoid", b("Add", b("PRelu", y, slope), full))

    y = (conv_transpose(*arrays[:3], strides=[2, 2]) + arrays[3]) * arrays[4] * arrays[5]
    y = np.minimum(y, arrays[6])
    y = np.where(y < 0, y * slope, y) + full
    node = fused("conv", build, arrays, constants=(1, 2))
    wanted = (1 / (1 + np.exp(-y))).astype(np.float32)
    # Four lanes of eight phases do not fit the narrower vectors.
    fits = NAME if target_for(isa).lanes >= 8 else []
    check_node(offers, node, arrays, isa=isa, threads=2, expected=[wanted], kernels=fits, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_threads_and_batches_are_bit_identical(isa):
    rng = np.random.default_rng(4)
    arrays = operands(rng, (3, 24, 5, 41), (1, 24, 1, 1), 1)
    node = fused("conv", lambda b, x, w, c: b("Sigmoid", b("Conv", x, w, c)), arrays, constants=(1, 2))
    found = []
    for threads in (1, 2, 3, 4):
        target = target_for(isa, threads)
        (offer,) = [o for o in offers(node, target) if o.kernel == "conv.narrow"]
        assert offer.outputs[0].layout == PLAIN
        problem, interleave, _ = offer.bind.args
        offer = dataclasses.replace(offer, bind=partial(narrow.bind, problem, interleave, threads))
        found += [run_offer(node, offer, arrays, target, hostile=h)[0] for h in (True, False)]
    assert all(np.array_equal(found[0], y) for y in found[1:])


def test_taps_of_phases():
    # Four taps with stride two: each phase sees two of the three neighbours.
    taps = taps_of(Axis(5, 10, 4, 2, 1, 1), True)
    assert (taps.pixels, taps.phases) == (5, 2)
    assert dict(taps.shifts) == {-1: (3, None), 0: (1, 2), 1: (None, 0)}


@pytest.mark.parametrize("parts", [Interleave(1, 2, 2), Interleave(4, 1, 1), Interleave(1, 1, 4)])
def test_assembles_for_aarch64(parts):
    structure = Structure(NEON, 4, parts.columns, 1, widths(NEON, 1), 0, parts)
    code = jit().object_code(conv_kernel(structure, NO_EPILOGUE).module())
    assert code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], "little") == 183
