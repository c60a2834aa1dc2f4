"""Convolutions of 8-bit integers against integer arithmetic in NumPy: bit for bit."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from autofusion.ir.infer import infer_node
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.codegen.epilogue import Epilogue
from autofusion_kernels_cpu.codegen.isa import ISAS
from autofusion_kernels_cpu.integer.form import Form, form_for
from autofusion_kernels_cpu.integer_conv import image, kernel
from autofusion_kernels_cpu.integer_conv.bind import Way, bind
from autofusion_kernels_cpu.integer_conv.offers import offers
from autofusion_kernels_cpu.integer_conv.problem import integer_conv_of
from autofusion_kernels_cpu.integer_conv.schedule import choose_tile
from autofusion_kernels_cpu.native.jit import jit
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check, check_node, make_node, run_offer, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE, isa_named

U8, S8 = np.uint8, np.int8
every_isa = pytest.mark.parametrize("isa", RUNNABLE)
TYPES = [(U8, S8), (U8, U8), (S8, S8), (S8, U8)]
every_pair = pytest.mark.parametrize("types", TYPES, ids=["u8s8", "u8u8", "s8s8", "s8u8"])

CASES = {
    "1x1": ((1, 20, 5, 7), (24, 20, 1, 1), {}),
    "1x1 one channel": ((2, 1, 3, 3), (5, 1, 1, 1), {}),
    "1x1 strided": ((1, 33, 9, 8), (17, 33, 1, 1), {"strides": [2, 2]}),
    "1x1 many filters on one pixel": ((1, 40, 1, 1), (130, 40, 1, 1), {}),
    "3x3": ((2, 18, 9, 11), (35, 18, 3, 3), {"pads": [1, 1, 1, 1]}),
    "3x3 strided": ((1, 16, 15, 13), (32, 16, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "3x3 dilated": ((1, 7, 12, 13), (20, 7, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "no border": ((1, 5, 6, 30), (3, 5, 3, 3), {}),
    "uneven border": ((1, 3, 10, 9), (40, 3, 5, 4), {"pads": [0, 3, 2, 1], "strides": [2, 1]}),
    "cropped": ((1, 6, 9, 9), (8, 6, 3, 3), {"pads": [-1, 1, -2, 0]}),
    "stem": ((1, 3, 21, 22), (64, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
    "groups": ((1, 24, 6, 7), (36, 6, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "groups of a block": ((1, 32, 5, 5), (64, 16, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((2, 37, 8, 9), (37, 1, 3, 3), {"group": 37, "pads": [1, 1, 1, 1]}),
    "depthwise 5x5 strided": ((1, 20, 13, 12), (20, 1, 5, 5), {"group": 20, "pads": [2] * 4, "strides": [2, 2]}),
    "two filters a channel": ((1, 9, 6, 6), (18, 1, 3, 3), {"group": 9, "pads": [1, 1, 1, 1]}),
    "one axis": ((2, 12, 40), (20, 12, 5), {"pads": [2, 2]}),
    "three axes": ((1, 5, 4, 5, 6), (19, 5, 2, 3, 3), {"pads": [1, 1, 0, 0, 1, 2]}),
    "wide": ((1, 4, 2, 200), (16, 4, 1, 3), {"pads": [0, 1, 0, 1]}),
}  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def numbers(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, shape)).astype(dtype)


def convolution(x, w, x_zero, w_zero, attrs):
    """In 64 bits, tap by tap, over a border of the operand's zero point."""
    rank = x.ndim - 2
    group, pads = attrs.get("group", 1), attrs.get("pads", [0] * 2 * rank)
    strides, dilations = attrs.get("strides", [1] * rank), attrs.get("dilations", [1] * rank)
    left = x.astype(np.int64) - np.asarray(x_zero, np.int64)
    right = w.astype(np.int64) - np.asarray(w_zero, np.int64).reshape(-1, *[1] * (w.ndim - 1))
    for axis in range(rank):
        low, high = pads[axis], pads[rank + axis]
        left = np.pad(left, [(max(low, 0), max(high, 0)) if a == axis + 2 else (0, 0) for a in range(left.ndim)])
        keep = slice(max(-low, 0), left.shape[axis + 2] - max(-high, 0))
        left = left[tuple(keep if a == axis + 2 else slice(None) for a in range(left.ndim))]
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
    sizes = [(n - r - 1) // s + 1 for n, r, s in zip(left.shape[2:], reach, strides, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *sizes), np.int64)
    channels, filters = w.shape[1], w.shape[0] // group
    for tap in itertools.product(*map(range, w.shape[2:])):
        window = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, sizes, strides, strict=True)
        )
        part = left[(slice(None), slice(None), *window)]
        for g in range(group):
            own = right[(slice(g * filters, (g + 1) * filters), slice(None), *tap)]
            source = part[:, g * channels : (g + 1) * channels]
            result[:, g * filters : (g + 1) * filters] += np.einsum("fc,nc...->nf...", own, source)
    return result.astype(np.int32)


def check_conv(x, w, x_zero, w_zero, attrs, *, isa, threads=2):
    inputs = [x, w, None if x_zero is None else np.asarray(x_zero, x.dtype)]
    inputs += [] if w_zero is None else [np.asarray(w_zero, w.dtype)]
    wanted = convolution(x, w, x_zero or 0, 0 if w_zero is None else w_zero, attrs)
    constants = [i for i, v in enumerate(inputs) if i and v is not None]
    if x_zero is not None and x_zero % 2:
        constants.remove(2)  # computed at run time
    check(offers, "ConvInteger", inputs, attrs, isa=isa, threads=threads, constants=constants, expected=[wanted])


@every_isa
@every_case
@every_pair
def test_shapes_and_zero_points(case, types, isa):
    shape, weights, attrs = case
    rng = np.random.default_rng(1)
    x, w = numbers(rng, types[0], *shape), numbers(rng, types[1], *weights)
    for x_zero in (None, int(numbers(rng, types[0]))):
        # Unsigned weights about 128 are signed bytes; about other numbers they are not.
        for w_zero in (None, 128 if types[1] == U8 else 0, numbers(rng, types[1], weights[0])):
            check_conv(x, w, x_zero, w_zero, attrs, isa=isa)


@every_isa
@every_pair
def test_extremes(types, isa):
    """Pairs of products of extremes do not fit in 16 bits: nothing may saturate on the way."""
    ends = [(np.iinfo(t).min, np.iinfo(t).max) for t in types]
    attrs = {"pads": [1, 1, 1, 1]}
    for x, w, x_zero in itertools.product(ends[0], ends[1], ends[0]):
        image, weights = np.full((1, 19, 4, 5), x, types[0]), np.full((17, 19, 3, 3), w, types[1])
        for w_zero in (None, *ends[1]):
            check_conv(image, weights, x_zero, w_zero, attrs, isa=isa)


@every_isa
def test_every_length_of_rows(isa):
    rng = np.random.default_rng(2)
    w = numbers(rng, S8, 20, 5, 1, 3)
    for width in [*range(3, 34), 100]:
        check_conv(numbers(rng, U8, 1, 5, 3, width), w, 7, None, {}, isa=isa, threads=1 + width % 3)


@every_isa
@every_pair
@pytest.mark.parametrize("result", [U8, S8, np.float32], ids=["u8", "s8", "f32"])
def test_epilogues(types, result, isa):
    """Integer bias, factors of filters, bias, activation, requantisation, a dequantised residual, quantised again."""
    rng = np.random.default_rng(3)
    for shape, weights, attrs in (CASES["3x3"], CASES["1x1"], CASES["depthwise"], CASES["one axis"]):
        x, w, zero = numbers(rng, types[0], *shape), numbers(rng, types[1], *weights), numbers(rng, types[0])
        spread = (-1, *[1] * (len(shape) - 2))
        factor = np.exp2(rng.integers(-14, -8, weights[0])).astype(np.float32).reshape(spread)
        bias, whole = rng.standard_normal(weights[0]).astype(np.float32), rng.integers(-999, 999, weights[0])
        other = numbers(rng, S8, *convolution(x, w, 0, 0, attrs).shape)

        def layer(g, x, w, zero, other):
            sums = g("Add", g("ConvInteger", x, w, zero, **attrs), whole.astype(np.int32).reshape(spread))  # noqa: B023
            real = g("Mul", g("Cast", sums, to=np.dtype(np.float32)), factor)  # noqa: B023
            y = g("Relu", g("Add", real, bias.reshape(spread)))  # noqa: B023
            if result == np.float32:
                return y
            after = g.constant(3, result)
            y = g("DequantizeLinear", g("QuantizeLinear", y, 0.037, after), 0.037, after)
            residual = g("DequantizeLinear", other, 0.11, g.constant(-5, S8))
            return g("QuantizeLinear", g("Relu", g("Add", y, residual)), 0.05, after)

        arrays = [x, w, zero, other]
        check_node(offers, fused("integer_conv", layer, arrays, [1, 2]), arrays, isa=isa, threads=2)


@every_isa
@pytest.mark.parametrize("scale", [1e-30, 1e-5, 1.0, 3e7, 1e37])
def test_tiny_and_huge_scales(scale, isa):
    """What is too large saturates, and half-way cases go to even, whatever the size of the numbers."""
    rng = np.random.default_rng(4)
    x, w = numbers(rng, U8, 1, 6, 5, 6), numbers(rng, S8, 18, 6, 1, 1)
    factor = np.full((18, 1, 1), scale / 2, np.float32)

    def layer(g, x, w):
        real = g("Mul", g("Cast", g("ConvInteger", x, w), to=np.dtype(np.float32)), factor)
        return g("QuantizeLinear", real, np.float32(min(scale * 64, 3e38)), g.constant(100, U8))

    check_node(offers, fused("integer_conv", layer, [x, w], [1]), [x, w], isa=isa)


@every_isa
def test_words_on_a_machine_that_multiplies_bytes(isa):
    """The form for machines without the instructions runs everywhere, with all widths of vectors."""
    rng = np.random.default_rng(5)
    x, w, zero = numbers(rng, S8, 1, 18, 9, 11), numbers(rng, S8, 35, 18, 3, 3), numbers(rng, S8)
    node = make_node("ConvInteger", [x, w, zero], {"pads": [1, 1, 1, 1]}, constants=[1, 2])
    infer_node(node)
    target = target_for(isa, 2)
    offer = offers(node, target)[0]
    problem = integer_conv_of(node)
    assert not isinstance(problem, Refusal), problem
    words = dataclasses.replace(
        offer, bind=lambda *views: bind(problem, Form.WORDS, Way.BLOCKED, isa_named(isa), 2, *views), scratch=1 << 16
    )
    np.testing.assert_array_equal(
        run_offer(node, words, [x, w, zero], target)[0], convolution(x, w, int(zero), 0, {"pads": [1, 1, 1, 1]})
    )


@pytest.mark.parametrize(
    ("case", "names"),
    [("3x3", ["bytes"]), ("stem", ["bytes", "planar"]), ("depthwise", ["rows"]), ("two filters a channel", ["bytes"])],
)
def test_ways(case, names):
    if form_for(isa_named(RUNNABLE[0])) is not Form.BYTES:
        pytest.skip("this machine does not multiply bytes")
    shape, weights, attrs = CASES[case]
    node = make_node("ConvInteger", [np.zeros(shape, U8), np.zeros(weights, S8)], attrs, constants=[1])
    infer_node(node)
    assert [o.kernel for o in offers(node, target_for(RUNNABLE[0]))] == [f"integer_conv.{name}" for name in names]


def test_refusals():
    x, w = np.zeros((1, 3, 4, 4), U8), np.zeros((5, 3, 1, 1), U8)
    for inputs, constants, reason in [
        ([x, w], [], "weights or their zero points are not constant"),
        ([x, w, None, np.zeros((), U8)], [1], "weights or their zero points are not constant"),
        ([x, w, np.zeros(3, U8)], [1], "expected one of uint8"),
        ([np.zeros((1, 3, 0, 4), U8), w], [1], "computes nothing"),
    ]:
        node = make_node("ConvInteger", inputs, constants=constants)
        infer_node(node)
        answer = offers(node, target_for(RUNNABLE[0]))
        assert isinstance(answer, Refusal) and reason in answer.reason


VNNI = {
    "avx512": dataclasses.replace(ISAS["avx512"], features=ISAS["avx512"].features + ",+avx512vnni"),
    "avx2": dataclasses.replace(ISAS["avx2"], features="+avxvnni"),
}


@pytest.mark.parametrize("isa", [*ISAS.values(), *VNNI.values()], ids=[*ISAS, *(f"{name}-vnni" for name in VNNI)])
def test_assembles(isa):
    form = form_for(isa)
    node = make_node("ConvInteger", [np.zeros((1, 6, 5, 7), U8), np.zeros((7, 6, 1, 1), U8)], constants=[1])
    infer_node(node)
    problem = integer_conv_of(node)
    assert not isinstance(problem, Refusal), problem
    kernels = [image.build(image.Structure(form, signed), isa) for signed in (False, True)]
    kernels += [image.build_planar(image.Structure(Form.BYTES, signed), isa) for signed in (False, True)]
    for pixels, filters in ((1, 200), (49, 64), (14, 3)):
        tile = choose_tile(isa, form, pixels, filters)
        assert tile.pixels * tile.vectors + tile.vectors < isa.registers
        s = kernel.Structure(form, tile, isa.lanes * form.element.size)
        for each in (s, dataclasses.replace(s, rows=True)):
            kernels.append(kernel.build(each, Epilogue(problem.epilogue.region, (), node.output), isa))
    assert all(len(jit().object_code(each.module())) > 200 for each in kernels)
    assert math.prod(problem.weights.shape) == 42
