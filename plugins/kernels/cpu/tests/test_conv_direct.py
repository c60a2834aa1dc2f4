"""Convolutions of every geometry against their definition in float64, on hostile memory (NaN in unspecified lanes)."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

from autofusion.ir.types import TensorType, of_array
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.conv import image
from autofusion_kernels_cpu.conv.geometry import geometry_of
from autofusion_kernels_cpu.conv.offers import offers
from autofusion_kernels_cpu.conv.problem import conv_of
from autofusion_kernels_cpu.conv.weights import FilterGroup, pack_blocked, padded_vector
from plugins.kernels.cpu.tests.conv_support import TOLERANCE, conv, conv_transpose, operands
from plugins.kernels.cpu.tests.kernel_harness import check, make_node, run_offer, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE


def run(isa, shape, filters, kernel, *, group=1, threads=1, bias=True, expect="", **attrs):
    rng = np.random.default_rng(abs(hash((tuple(shape), filters, tuple(kernel), group))) % 2**32)
    arrays = operands(rng, shape, (filters, shape[1] // group, *kernel), filters)[: 3 if bias else 2]
    wanted = conv(*arrays, group=group, **attrs).astype(np.float32)
    depthwise = shape[1] == filters == group
    return check(
        offers,
        "Conv",
        arrays,
        {"group": group, **attrs},
        isa=isa,
        threads=threads,
        constants=(1, 2),
        expected=[wanted],
        kernels=[expect or ("conv.depthwise" if depthwise else "conv.direct")],
        **TOLERANCE,
    )


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8, 15, 16, 17, 24, 31, 33, 40])
@pytest.mark.parametrize("filters", [1, 4, 16, 23, 40, 80])
def test_channels(isa, channels, filters):
    run(isa, (1, channels, 5, 9), filters, (3, 3), pads=[1, 1, 1, 1])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 14, 15, 19, 27, 29, 41])
@pytest.mark.parametrize("filters", [8, 20, 48, 70])
def test_row_lengths(isa, width, filters):
    run(isa, (1, 9, 3, width), filters, (1, 3), pads=[0, 1, 0, 1])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 2), (7, 7), (1, 4)])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2], [3, 1]])
@pytest.mark.parametrize("dilations", [[1, 1], [2, 3]])
def test_windows(isa, kernel, strides, dilations):
    pads = [kernel[0] // 2, 1, 2, kernel[1] // 2]
    run(isa, (2, 18, 17, 19), 20, kernel, strides=strides, dilations=dilations, pads=pads, threads=2)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    ("channels", "filters", "group"),
    [(32, 64, 2), (64, 32, 4), (12, 12, 4), (12, 24, 6), (36, 18, 2), (128, 128, 32), (10, 30, 5), (48, 48, 3)],
)
def test_groups(isa, channels, filters, group):
    run(isa, (2, channels, 6, 7), filters, (3, 3), group=group, pads=[1, 1, 1, 1], threads=3)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("special", [np.nan, np.inf])
@pytest.mark.parametrize(("channels", "filters", "group"), [(8, 8, 4), (6, 3, 3), (4, 12, 2), (34, 34, 17)])
def test_groups_that_share_a_block_keep_their_specials_to_themselves(isa, special, channels, filters, group):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, channels, 4, 5)), rng.standard_normal((filters, channels // group, 3, 3))
    x[:, 0] = special  # the first channel of the first group
    w[0, 0, 1, 1] = 0.0  # a weight that is zero still meets it
    arrays = [x.astype(np.float32), w.astype(np.float32)]
    attrs = {"group": group, "pads": [1, 1, 1, 1]}
    check(offers, "Conv", arrays, attrs, isa=isa, constants=(1,), **TOLERANCE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("channels", [1, 7, 16, 33])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"), [(3, 1, 1), (3, 2, 1), (5, 1, 1), (5, 2, 1), (7, 1, 1), (3, 1, 2), (4, 3, 1)]
)
def test_depthwise(isa, channels, kernel, stride, dilation):
    pads = [1, kernel // 2, kernel // 2, 0]
    attrs = {"pads": pads, "strides": [stride, stride], "dilations": [dilation, dilation]}
    run(isa, (2, channels, 14, 23), channels, (kernel, kernel), group=channels, threads=2, **attrs)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(7, 2, 1), (3, 2, 1), (3, 1, 1), (3, 1, 2), (1, 1, 1)])
@pytest.mark.parametrize("filters", [5, 32, 64])
def test_plain_image(isa, kernel, stride, dilation, filters):
    attrs = {"strides": [stride, stride], "dilations": [dilation, dilation], "pads": [kernel // 2, 1, 0, kernel // 2]}
    run(isa, (2, 3, 33, 31), filters, (kernel, kernel), threads=2, expect="conv.image", **attrs)
    attrs["pads"] = [0, 0, 0, 0]
    run(isa, (2, 3, 33, 31), filters, (kernel, kernel), threads=2, expect="conv.planar", **attrs)


def test_one_line_of_an_image_for_two_threads():
    run(RUNNABLE[0], (1, 1, 15000), 4, (60,), threads=2, expect="conv.image", pads=[29, 30])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 3, 4, 0], [5, 0, 0, 18], [0, 16, 0, 0]])
@pytest.mark.parametrize("width", [1, 15, 16, 40])
def test_lines_of_an_image_are_staged_in_blocks(isa, pads, width):
    rng = np.random.default_rng(3)
    arrays = operands(rng, (3, 2, 13, width), (9, 2, 4, 3), 9)
    if width + pads[1] + pads[3] < 3:
        return
    attrs = {"pads": pads, "strides": [2, 1]}
    node = make_node("Conv", arrays, attrs, (1, 2))
    wanted = conv(*arrays, **attrs)
    node.output.type = of_array(wanted.astype(np.float32))
    found = []
    for threads, cache in ((1, 1 << 20), (1, 1), (2, 12000), (3, 1), (4, 8000)):
        target = dataclasses.replace(target_for(isa, threads), l2_bytes=cache)
        geometry = geometry_of(node)
        made = image.staging(geometry, target, threads)
        (offer,) = [o for o in offers(node, target) if o.kernel == "conv.image"]
        offer = dataclasses.replace(
            offer,
            bind=partial(image.bind, conv_of(node), threads),
            scratch=image.scratch_bytes(geometry, target, threads),
        )
        assert made.rows >= 1 and (cache > 1 or made.rows == 1)
        found += [run_offer(node, offer, arrays, target, hostile=h)[0] for h in (True, False)]
    np.testing.assert_allclose(found[0], wanted, **TOLERANCE)
    assert all(np.array_equal(found[0], y) for y in found[1:])


def test_denormal_weights_count_as_zero():
    rng = np.random.default_rng(4)
    x, w, b = operands(rng, (1, 16, 6, 6), (16, 16, 3, 3), 16)
    w[:, ::2] = 1e-40
    b[::2] = -1e-41
    attrs = {"pads": [1, 1, 1, 1]}
    wanted = conv(x, np.where(np.abs(w) < 1e-38, 0, w), np.where(np.abs(b) < 1e-38, 0, b), **attrs)
    arrays = [x, w, b]
    check(offers, "Conv", arrays, attrs, isa=RUNNABLE[0], constants=(1, 2), expected=[wanted.astype("f")], **TOLERANCE)
    for values in (pack_blocked(w.reshape(16, 16, 9), [FilterGroup(0, 1, 0, 16)], 16, 16), padded_vector(b, 1, 16)):
        assert (values == 0).any() and not ((values != 0) & (np.abs(values) < np.finfo(np.float32).tiny)).any()


@pytest.mark.parametrize("isa", RUNNABLE)
def test_one_and_three_axes(isa):
    run(isa, (2, 20, 37), 24, (5,), pads=[2, 2], strides=[2], threads=2)
    run(isa, (2, 20, 37), 24, (1,))
    run(isa, (2, 10, 5, 6, 7), 24, (3, 2, 3), pads=[1, 0, 1, 1, 1, 0], strides=[2, 1, 2], threads=2)
    run(isa, (1, 10, 3, 4, 5), 24, (1, 1, 1), threads=2)
    run(isa, (1, 18, 5, 6, 7), 18, (3, 3, 3), group=18, pads=[1] * 6)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("batch", [1, 2, 5, 16])
def test_one_pixel(isa, batch):
    run(isa, (batch, 40, 1, 1), 100, (1, 1), threads=2)
    run(isa, (batch, 40, 3, 3), 24, (3, 3), threads=2)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_padding(isa, mode):
    rng = np.random.default_rng(0)
    arrays = operands(rng, (1, 6, 8, 11), (9, 6, 4, 3), 9)
    attrs = {"auto_pad": mode, "strides": [2, 2]}
    # SAME: ceil(size / stride) positions; totals are 2 for height and 2 for width, halved.
    low, high = {"SAME_UPPER": ([1, 1], [1, 1]), "SAME_LOWER": ([1, 1], [1, 1]), "VALID": ([0, 0], [0, 0])}[mode]
    wanted = conv(*arrays, strides=[2, 2], pads=low + high).astype(np.float32)
    check(offers, "Conv", arrays, attrs, isa=isa, constants=(1, 2), expected=[wanted], **TOLERANCE)
    arrays = operands(rng, (1, 6, 8, 8), (9, 6, 2, 2), 9)
    low, high = {"SAME_UPPER": ([0, 0], [1, 1]), "SAME_LOWER": ([1, 1], [0, 0]), "VALID": ([0, 0], [0, 0])}[mode]
    wanted = conv(*arrays, pads=low + high).astype(np.float32)
    check(offers, "Conv", arrays, {"auto_pad": mode}, isa=isa, constants=(1, 2), expected=[wanted], **TOLERANCE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"strides": [2, 2]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [3, 2], "dilations": [2, 1]},
        {"strides": [5, 4]},
        {"pads": [2, 0, 1, 1], "dilations": [1, 2]},
    ],
)
@pytest.mark.parametrize("group", [1, 2])
def test_transposed(isa, attrs, group):
    rng = np.random.default_rng(1)
    arrays = operands(rng, (2, 18, 5, 7), (18, 20 // group, 3, 3), 20)
    wanted = conv_transpose(*arrays, group=group, **attrs).astype(np.float32)
    check(
        offers,
        "ConvTranspose",
        arrays,
        {"group": group, **attrs},
        isa=isa,
        threads=2,
        constants=(1, 2),
        expected=[wanted],
        **TOLERANCE,
    )


@pytest.mark.parametrize("isa", RUNNABLE)
def test_transposed_with_one_and_three_axes(isa):
    rng = np.random.default_rng(2)
    for shape, weights, attrs in (
        ((2, 5, 9), (5, 7, 4), {"strides": [2], "pads": [1, 1]}),
        ((1, 5, 3, 4, 5), (5, 7, 2, 3, 2), {"strides": [2, 2, 2]}),
    ):
        arrays = operands(rng, shape, weights, 7)
        wanted = conv_transpose(*arrays, **attrs).astype(np.float32)
        check(offers, "ConvTranspose", arrays, attrs, isa=isa, constants=(1, 2), expected=[wanted], **TOLERANCE)


@pytest.mark.parametrize("seed", range(40))
def test_random_geometry(seed):
    rng = np.random.default_rng(seed)
    group = int(rng.choice([1, 1, 1, 2, 3]))
    batch, channels, height, width = (int(rng.integers(1, most)) for most in (4, 22, 20, 34))
    shape = (batch, group * channels, height, width)
    filters = group * int(rng.integers(1, 40))
    kernel = [int(rng.integers(1, 5)) for _ in range(2)]
    dilations = [int(rng.integers(1, 3)) for _ in range(2)]
    strides = [int(rng.integers(1, 4)) for _ in range(2)]
    pads = [int(p) for p in rng.integers(0, 4, 4)]
    for i in range(2):
        # Large enough for one window.
        missing = (kernel[i] - 1) * dilations[i] + 1 - shape[i + 2] - pads[i] - pads[i + 2]
        pads[i] += max(missing, 0)
    run(
        RUNNABLE[seed % len(RUNNABLE)],
        shape,
        filters,
        kernel,
        group=group,
        threads=int(rng.integers(1, 5)),
        bias=bool(rng.integers(0, 2)),
        strides=strides,
        dilations=dilations,
        pads=pads,
    )


def refusal(node):
    answer = offers(node, target_for(RUNNABLE[0]))
    assert isinstance(answer, Refusal)
    return answer.reason


def conv_node(x, w, constants=(1,), **attrs):
    node = make_node("Conv", [x, w], attrs, constants)
    node.output.type = of_array(np.zeros((x.shape[0], w.shape[0], 2, 2), x.dtype))
    return node


def test_what_is_refused():
    x, w = np.zeros((1, 3, 4, 4), np.float32), np.zeros((5, 3, 3, 3), np.float32)
    assert "not constant" in refusal(conv_node(x, w, constants=()))
    assert "float32" in refusal(conv_node(x.astype(np.float64), w.astype(np.float64)))
    empty = conv_node(x, w)
    empty.output.type = TensorType(np.dtype(np.float32), (0, 5, 2, 2))
    assert "nothing" in refusal(empty)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "group", "expect"),
    [
        (100, 40, (1, 1), 1, "conv.direct"),
        (32, 32, (3, 3), 1, "conv.direct"),
        (32, 32, (5, 5), 32, "conv.depthwise"),
        (64, 3, (3, 3), 1, "conv.narrow"),
        (3, 16, (3, 3), 1, "conv.image"),
    ],
)
def test_a_large_bias_does_not_spoil_the_sum(isa, channels, filters, kernel, group, expect):
    """The result is rounded at the size of the bias once, not with each of the additions."""
    rng = np.random.default_rng(5)
    x, w, _ = operands(rng, (1, channels, 12, 20), (filters, channels // group, *kernel), filters)
    b = np.full(filters, 3.0 * 2**12, np.float32)
    pads = [1] * 4
    wanted = conv(x, w, b, group=group, pads=pads)
    node = make_node("Conv", [x, w, b], {"group": group, "pads": pads}, (1, 2))
    node.output.type = of_array(wanted.astype(np.float32))
    target = target_for(isa)
    offer = next(o for o in offers(node, target) if o.kernel == expect)
    (found,) = run_offer(node, offer, [x, w, b], target)
    assert np.abs(found - wanted).max() < 0.55 * np.spacing(np.float32(2**13))
