"""Polynomial coefficients of the vector functions, fitted when a generator first asks for them.

Fitting keeps the approximations honest: a function, an interval and an error weight are the whole specification, and no
table of digits has to be trusted. A fit takes a few milliseconds and is kept for the life of the process.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

NODES = 160
ROUNDS = 30


def minimax(
    function: Callable[[float], float],
    low: float,
    high: float,
    terms: int,
    weight: Callable[[float], float] | None = None,
) -> tuple[float, ...]:
    """Coefficients c_0, c_1, ... of the polynomial that approximates ``function`` on [low, high].

    Least squares on Chebyshev nodes, re-weighted towards the smallest maximum (Lawson's iteration) of the error times
    ``weight``; without a weight the error is relative.
    """
    x = (low + high) / 2 + (high - low) / 2 * np.cos((np.arange(NODES) + 0.5) * np.pi / NODES)
    y = np.array([function(float(v)) for v in x])
    scale = 1 / np.abs(y) if weight is None else np.array([weight(float(v)) for v in x])
    # In powers of a variable of unit size the normal matrix stays well conditioned.
    unit = max(abs(low), abs(high))
    powers = (x / unit)[:, None] ** np.arange(terms)
    weights = scale.copy()
    coefficients = np.zeros(terms)
    for _ in range(ROUNDS):
        coefficients = np.linalg.lstsq(powers * weights[:, None], y * weights, rcond=None)[0]
        error = np.abs(powers @ coefficients - y) * scale
        if not error.max():
            break
        weights *= 0.7 + 0.3 * error / error.max()
        weights *= scale.max() / weights.max()
    return tuple(float(c) for c in coefficients / unit ** np.arange(terms))


def _scaled_erfc(z: float) -> float:
    """exp(z^2) erfc(z); by its asymptotic series where erfc would underflow."""
    if z < 10:
        return math.exp(z * z) * math.erfc(z)
    return (1 - 0.5 / z**2 + 0.75 / z**4 - 1.875 / z**6) / (z * math.sqrt(math.pi))


@functools.cache
def exp() -> tuple[float, ...]:
    """(e^r - 1 - r) / r^2 for |r| <= ln 2 / 2."""
    half = math.log(2) / 2
    return minimax(lambda r: (math.expm1(r) - r) / r**2 if abs(r) > 1e-3 else 0.5 + r / 6 + r * r / 24, -half, half, 6)


@functools.cache
def log() -> tuple[float, ...]:
    """(log(1 + f) - f + f^2 / 2) / f^3 for 1 + f from sqrt(1/2) to sqrt(2)."""

    def cubic(f: float) -> float:
        if abs(f) < 1e-2:
            return sum((-f) ** k / (k + 3) for k in range(8))
        return (math.log1p(f) - f + f * f / 2) / f**3

    return minimax(cubic, math.sqrt(0.5) - 1, math.sqrt(2) - 1, 9, lambda f: abs(f) ** 3 / (abs(math.log1p(f)) + 1e-30))


@functools.cache
def log1p() -> tuple[float, ...]:
    """(atanh(s) / s - 1) / s^2 as a polynomial of s^2, for 0 <= s <= 1/3: log(1 + y) = 2 atanh(y / (2 + y))."""
    return minimax(_atanh_tail, 0, 1 / 9, 5)


@functools.cache
def atanh_double() -> tuple[float, ...]:
    """As ``log1p``, to double precision's needs in ``pow``: s up to (sqrt(2) - 1) / (sqrt(2) + 1)."""
    return minimax(_atanh_tail, 0, 0.02944, 7)


def _atanh_tail(s2: float) -> float:
    if s2 < 1e-2:
        return sum(s2**k / (2 * k + 3) for k in range(10))
    s = math.sqrt(s2)
    return (math.atanh(s) / s - 1) / s2


@functools.cache
def exp2_double() -> tuple[float, ...]:
    """2^r for |r| <= 1/2."""
    return minimax(lambda r: 2.0**r, -0.5, 0.5, 10)


ERF_SPLIT = 0.86
"""erf is a polynomial where x^2 is below this, and 1 - exp(polynomial) above."""


@functools.cache
def erf_small() -> tuple[float, ...]:
    """erf(x) / x - 1 as a polynomial of x^2."""

    def ratio(s: float) -> float:
        x = math.sqrt(s)
        return math.erf(x) / x - 1 if x > 1e-4 else 2 / math.sqrt(math.pi) - 1

    return minimax(ratio, 0, ERF_SPLIT, 7)


@functools.cache
def erf_large() -> tuple[float, ...]:
    """log erfc(t) for t up to 4, weighted by what an error does to erf."""
    return minimax(lambda t: math.log(math.erfc(t)), 0.9, 4.0, 9, lambda t: math.erfc(t) / math.erf(t) + 1e-9)


GELU_SLOPE = 0.35
GELU_LIMIT = 13.1
"""Where the tail of gelu comes close to the end of float32's normal range."""


@functools.cache
def gelu() -> tuple[float, ...]:
    """exp(t^2 / 2) erfc(t / sqrt 2) / (2 (1 - v)) as a polynomial of v = 1 - 1 / (1 + GELU_SLOPE t)."""

    def factor(v: float) -> float:
        t = v / (1 - v) / GELU_SLOPE
        return _scaled_erfc(t / math.sqrt(2)) / (2 * (1 - v))

    return minimax(factor, 0.0, 1 - 1 / (1 + GELU_SLOPE * GELU_LIMIT), 9)


TANH_SPLIT = 0.36


@functools.cache
def tanh() -> tuple[float, ...]:
    """(tanh(x) / x - 1) / x^2 as a polynomial of x^2 below TANH_SPLIT."""

    def tail(s: float) -> float:
        if s < 1e-3:
            return -1 / 3 + 2 * s / 15 - 17 * s * s / 315
        x = math.sqrt(s)
        return (math.tanh(x) / x - 1) / s

    return minimax(tail, 0, TANH_SPLIT, 6)


@functools.cache
def sinh() -> tuple[float, ...]:
    """(sinh(x) / x - 1) / x^2 as a polynomial of x^2, for |x| <= 1."""
    return minimax(lambda s: sum(s**k / math.factorial(2 * k + 3) for k in range(8)), 0, 1, 4)


@functools.cache
def sin() -> tuple[float, ...]:
    """(sin(x) / x - 1) / x^2 as a polynomial of x^2, for |x| <= pi / 4."""
    return minimax(lambda s: sum((-1) ** (k + 1) * s**k / math.factorial(2 * k + 3) for k in range(8)), 0, 0.617, 4)


@functools.cache
def cos() -> tuple[float, ...]:
    """(cos(x) - 1 + x^2 / 2) / x^4 as a polynomial of x^2, for |x| <= pi / 4."""
    return minimax(lambda s: sum((-1) ** k * s**k / math.factorial(2 * k + 4) for k in range(8)), 0, 0.617, 4)


@functools.cache
def asin() -> tuple[float, ...]:
    """(asin(x) / x - 1) / x^2 as a polynomial of x^2, for |x| <= 1/2."""

    def tail(s: float) -> float:
        if s < 1e-3:
            return 1 / 6 + 3 * s / 40 + 15 * s * s / 336
        x = math.sqrt(s)
        return (math.asin(x) / x - 1) / s

    return minimax(tail, 0, 0.25, 6)


@functools.cache
def atan() -> tuple[float, ...]:
    """(atan(x) / x - 1) / x^2 as a polynomial of x^2, for |x| <= 1."""

    def tail(s: float) -> float:
        if s < 1e-3:
            return -1 / 3 + s / 5 - s * s / 7
        x = math.sqrt(s)
        return (math.atan(x) / x - 1) / s

    return minimax(tail, 0, 1, 9)
