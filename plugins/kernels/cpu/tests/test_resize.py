"""Resize against the reference kernels: every mode, both layouts, odd sizes."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import TensorType
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.resize.offers import offers
from plugins.kernels.cpu.tests.kernel_harness import check, make_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

TRANSFORMS = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"]


def run(x, attrs, *, isa=RUNNABLE[0], scales=None, sizes=None, threads=1, exact=False):
    scales = None if scales is None else np.array(scales, np.float32)
    sizes = None if sizes is None else np.array(sizes, np.int64)
    tolerance = {} if exact else {"rtol": 1e-5, "atol": 2e-6}
    return check(
        offers, "Resize", [x, None, scales, sizes], attrs, isa=isa, threads=threads, constants=(2, 3), **tolerance
    )


def image(*shape):
    return np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("shape", [(1, 16, 5, 7), (2, 19, 4, 3), (1, 1, 1, 1)])
def test_nearest_doubles(isa, shape):
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    names = run(image(*shape), attrs, isa=isa, scales=[1, 1, 2, 2], exact=True)
    assert names == ["resize.blocked", "resize.plain"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_modes(transform, nearest):
    attrs = {"mode": "nearest", "coordinate_transformation_mode": transform, "nearest_mode": nearest}
    run(image(1, 3, 6, 9), attrs, scales=[1, 1, 1.7, 0.6], exact=True)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_interpolation(isa, mode, transform):
    attrs = {"mode": mode, "coordinate_transformation_mode": transform}
    run(image(1, 18, 5, 8), attrs, isa=isa, sizes=[1, 18, 11, 19])
    run(image(2, 3, 9, 8), attrs, isa=isa, scales=[1, 1, 0.5, 2.3])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("shape", [(2, 5, 7), (1, 4, 3, 5, 6), (6, 7), (9,)])
def test_other_ranks(isa, shape):
    spatial = max(len(shape) - 2, 1)
    scales = [1.0] * (len(shape) - spatial) + [2.0] * spatial
    run(image(*shape), {"mode": "nearest"}, isa=isa, scales=scales, exact=True)
    run(image(*shape), {"mode": "linear"}, isa=isa, scales=scales)


def test_axes_and_aspect():
    for policy in ("stretch", "not_larger", "not_smaller"):
        attrs = {"mode": "linear", "axes": [3, 2], "keep_aspect_ratio_policy": policy}
        run(image(1, 4, 8, 6), attrs, sizes=[15, 12])


def test_antialias_and_outside():
    run(image(1, 5, 9, 9), {"mode": "linear", "antialias": 1}, scales=[1, 1, 0.75, 0.8])
    run(image(1, 5, 9, 9), {"mode": "cubic", "exclude_outside": 1}, scales=[1, 1, 2, 2])


def test_crop():
    attrs = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    roi = np.array([0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7], np.float32)
    sizes = np.array([1, 3, 5, 4], np.int64)
    inputs = [image(1, 3, 8, 9), roi, None, sizes]
    check(offers, "Resize", inputs, attrs, isa=RUNNABLE[0], constants=(1, 3), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_nan_and_infinity_stay_where_their_weight_is(isa):
    x = image(1, 17, 5, 6)
    x[0, 3, 2, 2], x[0, 16, 0, 0], x[0, 5, 4, 5] = np.nan, np.inf, -np.inf
    attrs = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    run(x, attrs, isa=isa, sizes=[1, 17, 9, 11])
    run(x, attrs | {"mode": "cubic"}, isa=isa, sizes=[1, 17, 9, 11])


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_threads(threads):
    run(image(1, 33, 3, 5), {"mode": "linear"}, scales=[1, 1, 2, 2], threads=threads)


def test_integers_by_nearest():
    x = np.arange(24, dtype=np.int32).reshape(1, 2, 3, 4)
    assert run(x, {"mode": "nearest"}, scales=[1, 1, 2, 2], exact=True) == ["resize.plain"]


def test_empty():
    run(np.zeros((0, 3, 4, 4), np.float32), {"mode": "nearest"}, scales=[1, 1, 2, 2], exact=True)


@pytest.mark.parametrize(
    ("dtype", "attrs", "scales", "word"),
    [
        ("float64", {"mode": "linear"}, [1, 1, 2, 2], "float64"),
        ("float32", {"mode": "linear", "antialias": 1}, [1, 1, 0.1, 0.1], "pixels"),
        ("float32", {"mode": "linear"}, [2, 1, 2, 2], "last three"),
    ],
)
def test_refusals(dtype, attrs, scales, word):
    node = make_node("Resize", [np.zeros((2, 1, 40, 40), dtype), None, np.array(scales, np.float32)], attrs, (2,))
    shape = tuple(int(s * d) for s, d in zip(scales, (2, 1, 40, 40), strict=True))
    node.output.type = TensorType(np.dtype(dtype), shape)
    answer = offers(node, target_for(RUNNABLE[0]))
    assert isinstance(answer, Refusal) and word in answer.reason
