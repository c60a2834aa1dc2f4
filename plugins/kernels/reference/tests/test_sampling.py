"""Sampling, regions and deformable convolutions: against onnxruntime, and where implementations go wrong."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from autofusion.ir.operators.schema import OPSET
from plugins.kernels.reference.tests.single import onnxruntime, run

F32 = np.float32
MODES = ["nearest", "linear", "cubic"]
PADDINGS = ["zeros", "border", "reflection"]


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, F32)


def _check(op: str, inputs: list[Any], tolerance: float = 1e-5, opset: int = OPSET, **attrs: Any) -> None:
    pytest.importorskip("onnxruntime")
    got, expected = run(op, *inputs, **attrs), onnxruntime(op, *inputs, opset=opset, **attrs)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(5, 6), (1, 3), (4, 1)])
def test_grid_sample_of_images(size: tuple[int, int], mode: str, padding: str, align: int) -> None:
    grid = (np.random.default_rng(1).random((2, 4, 7, 2), F32) * 5 - 2.5).astype(F32)
    _check("GridSample", [_normal(0, 2, 3, *size), grid], mode=mode, padding_mode=padding, align_corners=align)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample_of_volumes(mode: str, padding: str, align: int) -> None:
    grid = (np.random.default_rng(2).random((2, 3, 2, 5, 3), F32) * 4 - 2).astype(F32)
    _check("GridSample", [_normal(3, 2, 2, 3, 4, 5), grid], mode=mode, padding_mode=padding, align_corners=align)


def _tap(x: np.ndarray, row: int, column: int, padding: str) -> float:
    """One element of an image, padded, by the definition (half pixels)."""
    height, width = x.shape
    if padding == "zeros":
        return float(x[row, column]) if 0 <= row < height and 0 <= column < width else 0.0
    if padding == "border":
        return float(x[min(max(row, 0), height - 1), min(max(column, 0), width - 1)])

    def mirror(i: int, n: int) -> int:
        while not 0 <= i < n:
            i = -1 - i if i < 0 else 2 * n - 1 - i
        return i

    return float(x[mirror(row, height), mirror(column, width)])


def _cubic(d: float) -> float:
    a, d = -0.75, abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


@pytest.mark.parametrize("padding", PADDINGS)
def test_cubic_taps_are_padded_each_on_its_own(padding: str) -> None:
    x = _normal(4, 5, 6)
    grid = (np.random.default_rng(5).random((1, 9, 9, 2), F32) * 3 - 1.5).astype(F32)
    got = run("GridSample", x[None, None], grid, mode="cubic", padding_mode=padding)
    expected = np.zeros((9, 9))
    for i, j in np.ndindex(9, 9):
        across, down = (grid[0, i, j].astype(np.float64) + 1) * [6, 5] / 2 - 0.5
        left, top = int(np.floor(across)) - 1, int(np.floor(down)) - 1
        for row, column in itertools.product(range(top, top + 4), range(left, left + 4)):
            expected[i, j] += _tap(x, row, column, padding) * _cubic(across - column) * _cubic(down - row)
    np.testing.assert_allclose(got[0, 0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9])
def test_positions_that_no_index_holds(where: float, mode: str) -> None:
    x = np.arange(1, 17, dtype=F32).reshape(1, 1, 4, 4)
    # The middle of row 2 (-0.25 is its centre), and a good position beside the bad one.
    grid = np.array([[where, -0.25], [0.25, -0.25]], F32).reshape(1, 1, 2, 2)
    zeros = run("GridSample", x, grid, mode=mode, padding_mode="zeros").ravel()
    np.testing.assert_allclose(zeros, [0, 7], atol=1e-5)
    border = run("GridSample", x, grid, mode=mode, padding_mode="border").ravel()
    np.testing.assert_allclose(border, [8 if where > 0 else 5, 7], rtol=1e-6)
    mirrored = run("GridSample", x, grid, mode=mode, padding_mode="reflection").ravel()
    assert 5 - 0.5 <= mirrored[0] <= 8 + 0.5
    np.testing.assert_allclose(mirrored[1], 7, rtol=1e-6)


def test_what_lies_outside_is_zero_even_beside_infinite_data() -> None:
    x = np.full((1, 1, 2, 2), np.inf, F32)
    assert run("GridSample", x, np.full((1, 1, 1, 2), 9, F32)).item() == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_grid_sample_keeps_the_element_type(dtype: Any) -> None:
    x, grid = _normal(6, 1, 2, 4, 4), np.random.default_rng(7).random((1, 3, 3, 2), F32)
    y = run("GridSample", x.astype(dtype), grid.astype(dtype))
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(F32), run("GridSample", x, grid), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 2, 3, 2, 4)])
def test_affine_grid(size: tuple[int, ...], align: int) -> None:
    rank = len(size) - 2
    _check("AffineGrid", [_normal(8, size[0], rank, rank + 1), np.array(size, np.int64)], align_corners=align)


@pytest.mark.parametrize("ratio", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_roi_align(transformation: str, mode: str, ratio: int) -> None:
    rng = np.random.default_rng(9)
    low = rng.random((6, 2), F32) * 30 - 6
    rois = np.concatenate([low, low + rng.random((6, 2), F32) * 30], 1).astype(F32)
    attrs = {"output_height": 3, "output_width": 4, "sampling_ratio": ratio, "spatial_scale": 0.5, "mode": mode}
    inputs = [_normal(10, 2, 3, 12, 14), rois, np.array([0, 1, 1, 0, 0, 1], np.int64)]
    _check("RoiAlign", inputs, opset=16, coordinate_transformation_mode=transformation, **attrs)


def test_roi_align_of_no_extent_and_of_no_rois() -> None:
    x = _normal(11, 1, 2, 5, 5)
    none = run("RoiAlign", x, np.zeros((0, 4), F32), np.zeros(0, np.int64), output_height=2, output_width=2)
    assert none.shape == (0, 2, 2, 2)
    flat = run("RoiAlign", x, np.full((1, 4), 2, F32), np.zeros(1, np.int64), output_height=2, output_width=2)
    np.testing.assert_array_equal(flat, np.zeros((1, 2, 2, 2), F32))


def test_max_roi_pool() -> None:
    rois = np.array([[0, 1, 1, 9, 7], [1, -3, 2, 4, 30], [1, 5, 5, 5, 5], [0, 40, 40, 50, 50]], F32)
    _check("MaxRoiPool", [_normal(12, 2, 3, 8, 9), rois], opset=21, pooled_shape=[3, 2], spatial_scale=0.5)


@pytest.mark.parametrize(
    ("groups", "offset_groups", "strides", "dilations", "pads"),
    [
        (1, 1, [1, 1], [1, 1], [1, 1, 1, 1]),
        (2, 2, [2, 1], [1, 2], [0, 1, 2, 1]),
        (1, 4, [1, 2], [2, 1], [1, 0, 1, 1]),
        (4, 2, [2, 2], [1, 1], [0, 0, 0, 0]),
    ],
)
@pytest.mark.parametrize("extras", [False, True])
def test_deform_conv(groups: int, offset_groups: int, strides: Any, dilations: Any, pads: Any, extras: bool) -> None:
    x, w = _normal(13, 2, 4, 7, 8), _normal(14, 8, 4 // groups, 3, 2)
    out = [
        (n + pads[a] + pads[a + 2] - dilations[a] * (k - 1) - 1) // strides[a] + 1
        for a, (n, k) in enumerate(((7, 3), (8, 2)))
    ]
    offset = _normal(15, 2, offset_groups * 12, *out) * 2
    inputs = [x, w, offset]
    if extras:
        inputs += [_normal(16, 8), _normal(17, 2, offset_groups * 6, *out)]
    attrs = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups, "offset_group": offset_groups}
    _check("DeformConv", inputs, 2e-5, **attrs)


def test_deform_conv_of_wild_offsets() -> None:
    x, w = _normal(18, 1, 2, 5, 5), _normal(19, 3, 2, 1, 1)
    offset = np.full((1, 2, 5, 5), np.nan, F32)
    offset[..., 1:] = 1e30
    np.testing.assert_array_equal(run("DeformConv", x, w, offset), np.zeros((1, 3, 5, 5), F32))


@pytest.mark.parametrize(
    ("image", "block", "strides", "dilations", "pads"),
    [
        ((5, 6), (2, 3), [1, 1], [1, 1], [0, 0, 0, 0]),
        ((7, 6), (3, 2), [2, 1], [1, 2], [1, 0, 2, 1]),
        ((4, 5, 6), (2, 2, 3), [1, 2, 1], [2, 1, 1], [0, 1, 0, 1, 0, 2]),
    ],
)
def test_col2im(image: Any, block: Any, strides: Any, dilations: Any, pads: Any) -> None:
    rank = len(image)
    places = [
        (n + pads[a] + pads[a + rank] - dilations[a] * (k - 1) - 1) // strides[a] + 1
        for a, (n, k) in enumerate(zip(image, block, strict=True))
    ]
    x = _normal(20, 2, 3 * int(np.prod(block)), int(np.prod(places)))
    inputs = [x, np.array(image, np.int64), np.array(block, np.int64)]
    attrs = {"strides": strides, "dilations": dilations, "pads": pads}
    got = run("Col2Im", *inputs, **attrs)
    expected = np.zeros((2, 3, *image))
    columns = x.reshape(2, 3, *block, *places)
    for at in np.ndindex(*block, *places):
        tap, place = at[:rank], at[rank:]
        where = [p * s + t * d - lo for p, s, t, d, lo in zip(place, strides, tap, dilations, pads, strict=False)]
        if all(0 <= w < n for w, n in zip(where, image, strict=True)):
            expected[(slice(None), slice(None), *where)] += columns[(slice(None), slice(None), *at)]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    if rank == 2:  # onnxruntime mixes the channels of volumes
        _check("Col2Im", inputs, **attrs)
