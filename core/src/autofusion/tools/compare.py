"""How far two sets of outputs are apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

NEAR_ZERO = 1e-3
"""Values below this share of the output's range do not count for the mean relative error."""


@dataclass(frozen=True, slots=True)
class Difference:
    """``max_abs`` is absolute, ``max_over_range`` relative to the largest magnitude of the expected output.

    ``mean_relative`` averages |got - expected| / |expected| over values that are not near zero. NaN and infinity
    must be at the same places (``same_nonfinite``); they count in nothing else.
    """

    max_abs: float
    max_over_range: float
    mean_relative: float
    same_nonfinite: bool

    def worse(self, other: Difference) -> Difference:
        """The worse of two, figure by figure."""
        return Difference(
            max(self.max_abs, other.max_abs),
            max(self.max_over_range, other.max_over_range),
            max(self.mean_relative, other.mean_relative),
            self.same_nonfinite and other.same_nonfinite,
        )


NONE = Difference(0.0, 0.0, 0.0, True)


def difference(got: np.ndarray, expected: np.ndarray) -> Difference:
    """Compare two numeric arrays of one shape."""
    if got.shape != expected.shape:
        return Difference(np.inf, np.inf, np.inf, False)
    if got.dtype.kind not in "fciub" and got.dtype.kind != "V":
        same = bool(np.array_equal(got, expected))
        return NONE if same else Difference(np.inf, np.inf, np.inf, True)
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    a, b = got.astype(wide).ravel(), expected.astype(wide).ravel()
    finite = np.isfinite(b)
    same = bool(np.array_equal(finite, np.isfinite(a)) and np.array_equal(np.isnan(a), np.isnan(b)))
    a, b = a[finite], b[finite]
    if not a.size:
        return Difference(0.0, 0.0, 0.0, same)
    error, magnitude = np.abs(a - b), np.abs(b)
    error = np.where(np.isnan(error), np.inf, error)
    span = float(magnitude.max())
    telling = magnitude > NEAR_ZERO * span
    relative = float((error[telling] / magnitude[telling]).mean()) if telling.any() else 0.0
    largest = float(error.max())
    return Difference(largest, largest / span if span else largest, relative, same)


def compare(got: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> Difference:
    """The worst difference over all outputs, by name."""
    worst = NONE
    for name, value in expected.items():
        worst = worst.worse(difference(np.asarray(got[name]), np.asarray(value)))
    return worst
