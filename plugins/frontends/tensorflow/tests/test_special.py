"""Special functions against TensorFlow: special values, poles, and six digits everywhere else."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import autofusion as af  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import agree, frozen, specs_of  # noqa: E402  (after the skip)

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
RNG = np.random.default_rng(3)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, -7, 0.5, -0.5, 8, 3e38, -3e38, 1.0000001, -2.4570247]
SPREAD = np.concatenate(
    [
        SPECIAL,
        5 * RNG.standard_normal(2000),
        10 ** RNG.uniform(-30, 35, 1000),
        -(10 ** RNG.uniform(-30, 6, 500)),
        1 + RNG.uniform(-1e-3, 1e-3, 500),
        2 + RNG.uniform(-1e-3, 1e-3, 500),
    ]
)
INSIDE = np.concatenate(
    [[0.0, 1, -1, np.nan, 1.5, -np.inf], RNG.uniform(-1, 1, 2000), 1 - 10 ** RNG.uniform(-9, -1, 500)]
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["Lgamma", "BesselI0e"])
def test_function_of_every_size(op: str, dtype: type, tmp_path: Path) -> None:
    agree(tmp_path / "model.pb", lambda x: getattr(raw, op)(x=x), SPREAD.astype(dtype), rtol=1e-6, atol=1e-30)


def test_inverse_error_function(tmp_path: Path) -> None:
    # TensorFlow halves 1 + x before it looks it up, which costs small and large arguments their digits.
    middle = INSIDE[~(np.abs(INSIDE) < 1) | (np.abs(INSIDE) < 0.99)]
    agree(tmp_path / "model.pb", lambda x: raw.Erfinv(x=x), middle, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse_error_function_undoes_the_error_function(dtype: type, tmp_path: Path) -> None:
    x = INSIDE[np.abs(INSIDE) < 1].astype(dtype)
    x = x[np.abs(x) < 1]
    path = frozen(tmp_path / "model.pb", lambda x: raw.Erfinv(x=x), specs_of([x]))
    (y,) = af.compile(path, threads=1).run({"x0": x}).values()
    assert y.dtype == dtype
    # How far from the true place, by what is left to 1 (or to 0) and the slope there.
    wide, at = x.astype(np.float64), np.abs(y.astype(np.float64))
    low = np.array([math.erf(v) for v in at]) - np.abs(wide)
    high = 1 - np.abs(wide) - np.array([math.erfc(v) for v in at])
    error = np.where(np.abs(wide) < 0.5, low, high) * math.sqrt(math.pi) / 2 * np.exp(at * at)
    np.testing.assert_allclose(error, 0, atol=0.51 * np.spacing(np.float32(4.5)) if dtype == np.float32 else 4e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
@pytest.mark.parametrize("shape", [(3,), (4, 5, 3), (0, 3)])
def test_cross_product(shape: tuple[int, ...], dtype: type, tmp_path: Path) -> None:
    a, b = ((9 * RNG.standard_normal(shape)).astype(dtype) for _ in range(2))
    agree(tmp_path / "model.pb", lambda x, y: raw.Cross(a=x, b=y), a, b, rtol=1e-6, atol=1e-5)


def test_angle_of_signed_zeros_and_infinities(tmp_path: Path) -> None:
    values = np.float32([0, -0.0, 1, -2, np.inf, -np.inf, np.nan, 1e-30, 3e38])
    y, x = (v.ravel() for v in np.meshgrid(values, values))
    agree(tmp_path / "model.pb", lambda y, x: raw.Atan2(y=y, x=x), y, x, rtol=1e-6, atol=1e-30)
