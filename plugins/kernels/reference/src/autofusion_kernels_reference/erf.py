"""The error function on arrays, which NumPy lacks.

Taylor expansion about the nearest of 97 tabulated points 1/16 apart: the derivatives of erf are Hermite polynomials
times a Gaussian (Abramowitz and Stegun 7.1.19), the values at the points come from ``math.erf``. With |d| <= 1/32 and
terms up to d^10 the truncation error is below 1e-17; beyond 6 the function is 1 in float64.
"""

from __future__ import annotations

import math

import numpy as np

_STEP = 1 / 16
_LAST = 96
_TERMS = 11


def _table() -> np.ndarray:
    """Taylor coefficients, shape (terms, points)."""
    points = np.arange(_LAST + 1) * _STEP
    gauss = 2 / math.sqrt(math.pi) * np.exp(-points * points)
    table = np.empty((_TERMS, _LAST + 1))
    table[0] = [math.erf(p) for p in points]
    previous, hermite = np.zeros_like(points), np.ones_like(points)
    for k in range(1, _TERMS):
        table[k] = (-1) ** (k - 1) * hermite * gauss / math.factorial(k)
        previous, hermite = hermite, 2 * points * hermite - 2 * (k - 1) * previous
    return table


_COEFFICIENTS = _table()


def erf(x: np.ndarray) -> np.ndarray:
    """erf(x) of a float64 array, to about 2 ulp; NaN stays NaN."""
    size = np.minimum(np.abs(x), _LAST * _STEP)
    nan = np.isnan(x)
    nearest = np.rint(np.where(nan, 0, size) / _STEP).astype(np.intp)
    distance = size - nearest * _STEP
    total = _COEFFICIENTS[_TERMS - 1][nearest]
    for k in range(_TERMS - 2, -1, -1):
        total = total * distance + _COEFFICIENTS[k][nearest]
    return np.copysign(total, x)
