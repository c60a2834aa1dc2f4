"""The sampling kernels against the reference kernels: every mode, odd sizes, positions of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import of_array
from autofusion.kernels import InputError, Refusal
from autofusion_kernels_cpu.sampling.offers import offers
from plugins.kernels.cpu.tests.kernel_harness import check, make_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

ODD = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, 1.0, -1.0]
NEAR = {"rtol": 1e-5, "atol": 1e-5}


def numbers(*shape, low=-1.0, high=1.0):
    return np.random.default_rng(0).uniform(low, high, shape).astype(np.float32)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_grid_sample(isa, mode, padding, align):
    grid = numbers(2, 5, 7, 2, low=-1.6, high=1.6)
    grid.reshape(-1)[: len(ODD)] = ODD
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": align}
    tolerance = {} if mode == "nearest" else NEAR
    assert check(offers, "GridSample", [numbers(2, 3, 6, 4), grid], attrs, isa=isa, **tolerance) == ["sample.grid"]
    check(offers, "GridSample", [numbers(2, 3, 1, 2), grid], attrs, isa=isa, threads=2, **tolerance)


@pytest.mark.parametrize("shape", [(1, 2, 9), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_grid_sample_of_other_ranks(shape, mode):
    rank = len(shape) - 2
    grid = numbers(1, *[4] * rank, rank, low=-1.3, high=1.3)
    tolerance = {} if mode == "nearest" else NEAR
    check(offers, "GridSample", [numbers(*shape), grid], {"mode": mode}, isa=RUNNABLE[0], **tolerance)


def test_grid_sample_of_integers_by_nearest():
    x = np.arange(24, dtype=np.int32).reshape(1, 2, 3, 4)
    check(offers, "GridSample", [x, numbers(1, 3, 5, 2)], {"mode": "nearest"}, isa=RUNNABLE[0])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("half", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 3])
def test_roi_align(isa, mode, half, ratio):
    rois = np.array([[0, 0, 9, 5], [-4, 2, 30, 40], [3, 3, 3, 3], [7, 6, 2, 1], [0.3, 0.7, 70.2, 11]], np.float32)
    attrs = {
        "mode": mode, "coordinate_transformation_mode": half, "sampling_ratio": ratio, "spatial_scale": 0.5,
        "output_height": 5, "output_width": 4,
    }  # fmt: skip
    operands = [numbers(2, 3, 9, 11), rois, np.array([0, 1, 1, 0, 1], np.int64)]
    assert check(offers, "RoiAlign", operands, attrs, isa=isa, threads=2, **NEAR) == ["sample.regions"]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("extra", ["none", "bias", "both", "mask"])
def test_deform_conv(isa, groups, extra):
    x, w = numbers(2, 4, 8, 7), numbers(6, 4 // groups, 3, 2)
    attrs = {"group": groups, "offset_group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
    height, width = (8 + 3 - 3) // 2 + 1, 7 + 1 - 3 + 1
    offset = numbers(2, 24, height, width, low=-3, high=3)
    bias = numbers(6) if extra in ("bias", "both") else None
    mask = numbers(2, 12, height, width) if extra in ("mask", "both") else None
    operands = [x, w, offset] + ([bias] if bias is not None or mask is not None else [])
    operands += [] if mask is None else [mask]
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    names = check(offers, "DeformConv", operands, attrs, isa=isa, threads=2, **tolerance)
    assert names == ["sample.deformable"]
    check(offers, "DeformConv", operands, attrs, isa=isa, constants=(1, 3), **tolerance)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("attrs", [{}, {"strides": [2, 1], "pads": [1, 0, 0, 2]}, {"dilations": [2, 1]}])
def test_col2im(isa, attrs):
    image, block = np.array([7, 6]), np.array([2, 3])
    pads, strides = attrs.get("pads", [0] * 4), attrs.get("strides", [1, 1])
    dilations = attrs.get("dilations", [1, 1])
    places = [
        (n + pads[i] + pads[i + 2] - (k - 1) * d - 1) // s + 1
        for i, (n, k, s, d) in enumerate(zip(image, block, strides, dilations, strict=True))
    ]
    x = numbers(2, 3 * 6, places[0] * places[1])
    assert check(offers, "Col2Im", [x, image, block], attrs, isa=isa, constants=(1, 2), **NEAR) == ["sample.columns"]


@pytest.mark.parametrize(
    ("op", "operands", "shape"),
    [
        ("GridSample", [numbers(2, 3, 6, 4), numbers(1, 5, 7, 2)], (2, 3, 5, 7)),
        ("RoiAlign", [numbers(1, 3, 6, 4), numbers(2, 4), np.zeros(1, np.int64)], (2, 3, 1, 1)),
        ("DeformConv", [numbers(1, 4, 5, 5), numbers(2, 4, 1, 1), numbers(1, 2, 1, 1)], (1, 2, 5, 5)),
        ("DeformConv", [numbers(1, 4, 5, 5), numbers(2, 4, 1, 1), numbers(1, 2, 5, 5), numbers(1)], (1, 2, 5, 5)),
    ],
)
def test_operands_that_do_not_fit_are_refused(op, operands, shape):
    node = make_node(op, operands)
    node.output.type = of_array(np.zeros(shape, np.float32))
    assert isinstance(offers(node, target_for(RUNNABLE[0])), Refusal)


@pytest.mark.parametrize(
    ("rois", "images", "message"),
    [([[0, 0, 1e30, 5]], [0], "region 0"), ([[0, 0, 4, 5], [0, 0, 2, 2]], [0, 3], "batch index 3")],
)
def test_regions_that_cannot_be_sampled_are_named(rois, images, message):
    operands = [numbers(1, 3, 6, 4), np.array(rois, np.float32), np.array(images, np.int64)]
    with pytest.raises(InputError, match=message):
        check(offers, "RoiAlign", operands, isa=RUNNABLE[0], expected=[np.zeros((len(rois), 3, 1, 1), np.float32)])
