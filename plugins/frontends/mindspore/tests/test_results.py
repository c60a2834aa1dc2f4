"""Results of another element type, form or number than the operands suggest, and of numbers that are not finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plugins.frontends.mindspore.tests.one_primitive import run
from plugins.frontends.mindspore.tests.primitive_definitions import convolved, softplus

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(6)
LEVELS = ("off", "full")
I8, I32, F32 = np.int8, np.int32, np.float32


def bytes_(*shape: int, dtype: Any = I8) -> np.ndarray:
    """Integers whose products do not fit into eight bits."""
    limits = np.iinfo(dtype)
    return RNG.integers(max(limits.min, -120), 120, shape).astype(dtype)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64)


A, B, V = bytes_(4, 5), bytes_(5, 6), bytes_(5)
STACK, OTHERS = bytes_(2, 4, 5), bytes_(2, 5, 6)
IMAGE, WEIGHT = bytes_(1, 3, 6, 5), bytes_(4, 3, 3, 3)
SPATIAL = {"pad_mode": "valid", "stride": (1, 1, 1, 1), "dilation": (1, 1, 1, 1), "group": 1}
CONVOLVED = np.rint(convolved(IMAGE, WEIGHT, 1, 0)).astype(np.int64)
BIAS = bytes_(4).astype(I32) * 1000

PRODUCTS: list[tuple[str, tuple[Any, ...], dict[str, Any], np.ndarray]] = [
    ("MatMul", (A, B, False, False), {}, wide(A) @ wide(B)),
    ("MatMul", (A.T.copy(), B.T.copy(), True, True), {}, wide(A) @ wide(B)),
    ("MatMul", (A, B.astype(np.int16), False, False), {}, wide(A) @ wide(B)),
    ("MatMul", (A, bytes_(5, 6, dtype=np.uint8), False, False), {}, None),
    ("BatchMatMul", (STACK, OTHERS, False, False), {}, wide(STACK) @ wide(OTHERS)),
    ("BatchMatMul", (STACK, OTHERS.swapaxes(1, 2).copy(), False, True), {}, wide(STACK) @ wide(OTHERS)),
    ("MatMulExt", (A, B), {}, wide(A) @ wide(B)),
    ("BatchMatMulExt", (STACK, OTHERS), {}, wide(STACK) @ wide(OTHERS)),
    ("Mm", (A, B), {}, wide(A) @ wide(B)),
    ("Mv", (A, V), {}, wide(A) @ wide(V)),
    ("Dot", (V, V), {}, wide(V) @ wide(V)),
    ("Dense", (A, B.T.copy(), None), {}, wide(A) @ wide(B)),
    ("Dense", (STACK, B.T.copy(), bytes_(6)), {}, None),
    ("Addmm", (bytes_(4, 6), A, B, 1, 1), {}, None),
    ("Baddbmm", (bytes_(2, 4, 6), STACK, OTHERS, 1, 1), {}, None),
    ("Einsum", ((A, B),), {"equation": "ij,jk->ik"}, wide(A) @ wide(B)),
    ("Ger", (V, V), {}, np.outer(wide(V), wide(V))),
    ("Outer", (V, V), {}, np.outer(wide(V), wide(V))),
    ("Mul", (V, V), {}, wide(V) * wide(V)),
    ("AddExt", (V, V, 3), {}, wide(V) * 4),
    ("Conv2D", (IMAGE, WEIGHT), SPATIAL, CONVOLVED),
    ("Conv2DExt", (IMAGE, WEIGHT, BIAS, 1, 0, 1, 1), {}, CONVOLVED + wide(BIAS)[None, :, None, None]),
    ("CumProd", (V, 0, False, False), {}, np.cumprod(wide(V))),
    ("CumSum", (V, 0, False, False), {}, np.cumsum(wide(V))),
    ("CumsumExt", (V, 0, None), {}, np.cumsum(wide(V))),
    ("ProdExt", (V, None, False, None), {}, wide(V).prod()),
    ("SumExt", (V, None, False, None), {}, wide(V).sum()),
    ("ReduceSum", (A, (0,), False, False), {}, wide(A).sum(0)),
    ("TraceExt", (A,), {}, np.trace(wide(A))),
]
MIXED = {
    "MatMul": lambda a, b, *_: wide(a) @ wide(b),
    "Dense": lambda x, w, b: wide(x) @ wide(w).T + wide(b),
    "Addmm": lambda c, a, b, *_: wide(c) + wide(a) @ wide(b),
    "Baddbmm": lambda c, a, b, *_: wide(c) + wide(a) @ wide(b),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize(
    ("primitive", "operands", "attrs", "expected"), PRODUCTS, ids=[f"{i}-{p[0]}" for i, p in enumerate(PRODUCTS)]
)
def test_products_are_computed_in_the_type_of_the_result(
    primitive: str,
    operands: tuple[Any, ...],
    attrs: dict[str, Any],
    expected: Any,
    dtype: Any,
    level: str,
    tmp_path: Path,
) -> None:
    if expected is None:
        expected = MIXED[primitive](*operands)
    with np.errstate(over="ignore"):
        expected = np.asarray(expected).astype(dtype)
    (result,) = run(tmp_path, primitive, operands, attrs, expected, level=level)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-6 if dtype is np.float32 else 0)


X = RNG.standard_normal((2, 3, 4, 5)).astype(F32)
SCALE, SHIFT, MEAN = (RNG.standard_normal(3).astype(F32) for _ in range(3))
VARIANCE = np.abs(SCALE) + F32(0.5)


def normalised(x: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float) -> np.ndarray:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    y = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + epsilon)
    return (y * SCALE.reshape(shape) + SHIFT.reshape(shape)).astype(F32)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 3)])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_ext_has_three_results(shape: tuple[int, ...], training: bool, tmp_path: Path) -> None:
    x = RNG.standard_normal(shape).astype(F32)
    axes = (0, *range(2, x.ndim))
    mean, variance = (x.mean(axes), x.var(axes)) if training else (MEAN, VARIANCE)
    expected = normalised(x, mean, variance, 1e-3), mean, (1 / np.sqrt(variance + 1e-3)).astype(F32)
    operands = (x, SCALE, SHIFT, MEAN, VARIANCE, training, 0.1, 1e-3)
    for given, want in zip(run(tmp_path, "BatchNormExt", operands, {}, expected), expected, strict=True):
        np.testing.assert_allclose(given, want, rtol=1e-4, atol=1e-5)
    (first,) = run(tmp_path, "BatchNormExt", operands, {}, expected, element=0)
    np.testing.assert_allclose(first, expected[0], rtol=1e-4, atol=1e-5)


def test_batch_norm_ext_without_scale_and_bias(tmp_path: Path) -> None:
    operands = (X, None, None, np.zeros(3, F32), np.ones(3, F32), False, 0.1, 0.0)
    declared = (X, np.zeros(3, F32), np.ones(3, F32))
    (result,) = run(tmp_path, "BatchNormExt", operands, {}, declared, element=0)
    np.testing.assert_allclose(result, X, rtol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_log_sigmoid_may_have_two_results(level: str, tmp_path: Path) -> None:
    (alone,) = run(tmp_path, "LogSigmoid", (X,), {}, X, level=level)
    (first,) = run(tmp_path, "LogSigmoid", (X,), {}, (X, np.zeros(0, F32)), element=0, level=level)
    np.testing.assert_allclose(alone, -softplus(-X), rtol=1e-5)
    assert np.array_equal(alone, first)


@pytest.mark.parametrize("declared", [np.array([True]), np.bool_(True)])
@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (X, X.copy(), True),
        (X, X + (np.arange(X.size).reshape(X.shape) == 7), False),
        (X, X[:, :, :, :1], False),  # would broadcast
        (X, X[0], False),
        (X[:0], X[:0], True),
        (np.float32([1, np.nan]), np.float32([1, np.nan]), False),
        (np.int32([1, 2]), np.int64([1, 2]), True),
        (np.array([True, False]), np.array([True, True]), False),
    ],
)
def test_equality_of_tensors_is_one_truth_value(
    left: np.ndarray, right: np.ndarray, equal: bool, declared: Any, tmp_path: Path
) -> None:
    for level in LEVELS:
        (result,) = run(tmp_path, "EqualExt", (left, right.astype(right.dtype)), {}, declared, level=level)
        assert result.dtype == np.bool_ and result.shape == declared.shape and bool(result.all()) is equal


def test_counts_and_tests_of_whole_tensors(tmp_path: Path) -> None:
    x, y = np.float32([1, 2, 3]), np.float32([1, 5, 3 + 1e-7])
    assert run(tmp_path, "EqualCount", (x, y), {}, np.float32([2]))[0].tolist() == [2.0]
    assert run(tmp_path, "ApproximateEqual", (x, y), {"tolerance": 1e-3}, x > 0)[0].tolist() == [True, False, True]
    for value, found in ((1.0, False), (np.nan, True), (-np.inf, True)):
        tensors = (x, np.float32([value]))
        assert bool(run(tmp_path, "AllFinite", (tensors,), {}, np.array([found]))[0].all()) is found


SPECIAL = np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 1e30, -1e30, 88.8, -104, 20, -20, 0.5] * 4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("primitive", "operands", "sign"),
    [
        ("Softplus", (), 1),
        ("SoftplusExt", (1, 20), 1),
        ("SoftplusExt", (1, 20.0), 1),
        ("LogSigmoid", (), -1),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_softplus_of_nan_and_infinity(
    primitive: str, operands: tuple[Any, ...], sign: int, dtype: Any, level: str, tmp_path: Path
) -> None:
    with np.errstate(over="ignore"):
        x = SPECIAL.astype(dtype)
    (result,) = run(tmp_path, primitive, (x, *operands), {}, x, level=level)
    wide = sign * x.astype(np.float64)
    expected = sign * (np.maximum(wide, 0) + np.log1p(np.exp(-np.abs(wide))))
    np.testing.assert_allclose(result, expected.astype(dtype), rtol=2e-3 if dtype is np.float16 else 2e-6, atol=1e-7)
