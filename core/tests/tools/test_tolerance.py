"""What counts as wrong: per channel, per element type, NaN and infinity, and what rounding excuses."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.numerics import Numerics
from autofusion.tools.verify.tolerance import Tolerances, judge, perturbed

RNG = np.random.default_rng(0)
NORMAL = Tolerances()


def check(got: np.ndarray, plain: np.ndarray, exact: np.ndarray | None = None, moved: np.ndarray | None = None, **more):  # type: ignore[no-untyped-def]
    return judge(got, plain, plain.astype(np.float64) if exact is None else exact, moved, NORMAL, **more)


def tensor() -> np.ndarray:
    """Channels of very different sizes."""
    x = RNG.standard_normal((2, 4, 8, 8)).astype(np.float32)
    return x * np.float32([1.0, 100.0, 0.01, 1.0])[:, None, None]


def test_rounding_is_fine() -> None:
    x = tensor()
    assert check(x * np.float32(1 + 2e-6), x).fine


def test_a_small_channel_does_not_hide_behind_a_large_one() -> None:
    x = tensor()
    y = x.copy()
    y[:, 2] *= np.float32(1.0005)
    found = check(y, x)
    assert not found.fine and "channel 2" in found.reason
    assert np.abs(y - x).max() < 1e-6 * np.abs(x).max(), "of the whole, it is nothing"


def test_what_moves_with_one_rounding_of_the_operands_is_excused() -> None:
    """A difference of large numbers: no arithmetic in single precision gets closer."""
    a = np.float32(1e4) + RNG.random((4, 16, 16), np.float32)
    b = np.float32(1e4) + RNG.random((4, 16, 16), np.float32)
    exact = a.astype(np.float64) - b.astype(np.float64)
    moved = perturbed(a, 0) - perturbed(b, 1)
    got = (exact + 1e-3 * RNG.standard_normal(exact.shape)).astype(np.float32)
    plain = exact.astype(np.float32)
    assert not check(got, plain, exact).fine
    assert check(got, plain, exact, moved).fine


def test_nan_and_infinity_must_be_at_the_same_places() -> None:
    x = tensor()
    x[0, 0, 0, 0], x[0, 0, 0, 1] = np.nan, np.inf
    assert check(x.copy(), x).fine
    y = x.copy()
    y[0, 0, 0, 1] = -np.inf
    assert "at other places" in check(y, x).reason
    y = x.copy()
    y[1, 1, 1, 1] = np.nan
    assert "1 of 512 elements are NaN" in check(y, x).reason
    assert check(y, x, clean=False).fine, "a kernel may spread what its operands have"
    y[0, 0, 0, 0] = 0
    assert not check(y, x, clean=False).fine, "but not hide it"


def test_integers_are_exact() -> None:
    x = np.arange(8)
    assert check(x.copy(), x).fine
    assert "1 of 8 elements differ" in check(np.where(x == 3, 0, x), x).reason


@pytest.mark.parametrize(("dtype", "fine"), [("float16", True), ("float32", False), ("float64", False)])
def test_each_type_has_its_own_tolerance(dtype: str, fine: bool) -> None:
    x = (1 + RNG.random((4, 32))).astype(dtype)
    assert check(x * np.asarray(1.001, dtype), x).fine is fine


def test_stated_tolerances_and_approximate_kernels() -> None:
    x = (1 + RNG.random((4, 32))).astype(np.float32)
    y = x * np.float32(1.00005)
    assert not check(y, x).fine
    assert check(y, x, numerics=Numerics.APPROXIMATE).fine
    assert judge(y, x, x.astype(np.float64), None, Tolerances({"f32": 1e-3})).fine


def test_another_type_or_shape_is_wrong() -> None:
    x = np.zeros((2, 3), np.float32)
    assert "expected float32[2, 3], found float32[3, 2]" in check(x.T, x).reason
    assert "found float64[2, 3]" in check(x.astype(np.float64), x).reason
