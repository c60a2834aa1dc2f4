"""Selections among many elements: against onnxruntime, and where partial sorts and exact products may go wrong."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from plugins.kernels.reference.tests.single import onnxruntime, run

F32 = np.float32


@pytest.mark.parametrize("centre", [0, 1])
@pytest.mark.parametrize("threshold", [None, 0.5, 2.0])
@pytest.mark.parametrize("limit", [1, 5, 60, 300])
@pytest.mark.parametrize("size", [1, 7, 300])
def test_non_max_suppression(size: int, limit: int, threshold: float | None, centre: int) -> None:
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(size)
    middle, extent = rng.random((2, size, 2), F32) * 50, rng.random((2, size, 2), F32) * 30
    boxes = np.concatenate([middle, extent] if centre else [middle - extent / 2, middle + extent / 2], -1)
    scores = np.round(rng.random((2, 4, size), F32), 1 if size < 100 else 3)  # equal ones go by their index
    for overlap in (0.0, 0.3, 0.7):
        inputs = [boxes.astype(F32), scores, np.array([limit]), np.array([overlap], F32)]
        inputs += [] if threshold is None else [np.array([threshold], F32)]
        expected = onnxruntime("NonMaxSuppression", *inputs, center_point_box=centre)
        np.testing.assert_array_equal(run("NonMaxSuppression", *inputs, center_point_box=centre), expected)


@pytest.mark.parametrize("limit", [0, 3])
def test_non_max_suppression_of_nothing(limit: int) -> None:
    boxes, scores = np.zeros((1, 0, 4), F32), np.zeros((1, 2, 0), F32)
    assert run("NonMaxSuppression", boxes, scores, np.array([limit]), np.array([0.5], F32)).shape == (0, 3)


_TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.uint32, np.int64]


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((5, 40), -1), ((40, 5), 0), ((2, 9000), 1), ((9000,), 0)])
def test_top_k_puts_the_lower_index_first_among_equals(shape: Any, axis: int, largest: int, dtype: Any) -> None:
    x = np.random.default_rng(2).integers(0, 20, shape)
    x = (x - (0 if np.dtype(dtype).kind == "u" else 10)).astype(dtype)
    wide = x.astype(np.float64)
    for k in (0, 1, 7, shape[axis]):
        values, indices = run("TopK", x, np.array([k]), outputs=2, axis=axis, largest=largest)
        expected = np.argsort(-wide if largest else wide, axis=axis, kind="stable").take(range(k), axis=axis)
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(values.astype(np.float64), np.take_along_axis(wide, expected, axis))


@pytest.mark.parametrize("size", [8, 5000])
def test_top_k_of_infinities_and_zeros_of_both_signs(size: int) -> None:
    x = np.full(size, -5, F32)
    x[:7] = [0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 0.0]
    _, indices = run("TopK", x, np.array([6]), outputs=2)
    assert indices.tolist() == [2, 4, 0, 1, 6, 5]


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_of_repeated_places(axis: int, reduction: str) -> None:
    rng = np.random.default_rng(3)
    x, updates = rng.standard_normal((4, 5, 6)), rng.standard_normal((3, 2, 4))
    indices = rng.integers(-4, 4, (3, 2, 4))
    expected = x.copy()
    combine = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for at in np.ndindex(indices.shape):
        place = list(at)
        place[axis] = indices[at]
        expected[tuple(place)] = combine[reduction](expected[tuple(place)], updates[at])
    np.testing.assert_allclose(
        run("ScatterElements", x, indices, updates, axis=axis, reduction=reduction), expected, rtol=1e-12
    )


@pytest.mark.parametrize("inner", [3, 600, 5000, 40000])
def test_integer_products_are_exact_at_any_length(inner: int) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.integers(200, 256, (3, inner), np.uint8), rng.integers(200, 256, (inner, 4), np.uint8)
    y = run("MatMulInteger", a, b)
    np.testing.assert_array_equal(y, (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32))
    image, weights = a.reshape(1, 3, inner), b.T[:, None].repeat(3, 1)
    y = run("ConvInteger", image, weights)
    assert y.item(0) == np.int64(np.sum(image[0].astype(np.int64) * weights[0])).astype(np.int32)


def test_integer_products_wrap_around_in_32_bits() -> None:
    a = np.full((1, 70000), 255, np.uint8)
    assert run("MatMulInteger", a, a.T).item() == np.int64(70000 * 255 * 255).astype(np.int32)


@pytest.mark.parametrize(
    "equation",
    ["bhid,bhjd->bhij", "ij,jk->ki", "ij,kj->", "abc,cd->abd", "ab,ab->a", "ab,cd->dbca", "aij,ajk->aik", "i,j->ji",
     "abk,bk->a", "ii,ij->j", "...i,ij->...j"],
)  # fmt: skip
def test_einsum(equation: str) -> None:
    rng = np.random.default_rng(5)
    sizes = dict(zip("abcdhijk", (2, 3, 4, 5, 2, 6, 6, 3), strict=True))
    operands = [
        rng.standard_normal([sizes[c] for c in name.replace("...", "ab")])
        for name in equation.split("->")[0].split(",")
    ]
    np.testing.assert_allclose(run("Einsum", *operands, equation=equation), np.einsum(equation, *operands), rtol=1e-9)


def test_qlinear_products_fall_as_in_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(6)
    scale = lambda v: np.array(v, F32)  # noqa: E731
    zero = np.array(120, np.uint8)
    a, b = rng.integers(0, 256, (64, 96), np.uint8), rng.integers(0, 256, (96, 80), np.uint8)
    product = [a, scale(0.02), zero, b, scale(0.0125), zero, scale(0.5), zero]
    np.testing.assert_array_equal(run("QLinearMatMul", *product), onnxruntime("QLinearMatMul", *product))
    for dtype, groups in itertools.product((np.uint8, np.int8), (1, 4)):
        x = rng.integers(0, 256, (1, 8, 20, 20), np.uint8)
        w = rng.integers(-100 if dtype is np.int8 else 0, 120, (16, 8 // groups, 3, 3)).astype(dtype)
        inputs = [x, scale(0.02), zero, w, scale(0.01), np.zeros((), dtype), scale(0.4), zero]
        attrs = {"pads": [1, 1, 1, 1], "group": groups}
        np.testing.assert_array_equal(
            run("QLinearConv", *inputs, **attrs), onnxruntime("QLinearConv", *inputs, **attrs)
        )
