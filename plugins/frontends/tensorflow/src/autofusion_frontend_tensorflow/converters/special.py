"""Special functions, said by polynomials and logarithms.

All are computed with 64 bits and rounded once, so that narrower types get theirs to the last bit or so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow import series
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter

_LANCZOS = 7.0
_LANCZOS_TERMS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
"""Lanczos, 1964, with g = 7 and nine terms: about 1e-15."""


def _wide(function: Callable[[Call, Value], Value]) -> Callable[[Call], Value]:
    """A converter that computes ``function`` with 64 bits."""

    def convert(call: Call) -> Value:
        x = call.operand(0)
        return call.cast(function(call, call.cast(x, np.float64)), call.dtype(x))

    convert.__doc__ = function.__doc__
    return convert


def _polynomial(call: Call, x: Value, coefficients: Sequence[float]) -> Value:
    """By Horner's rule."""
    value = call.like(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = call.emit("Add", call.emit("Mul", value, x), call.like(coefficient, x))
    return value


def _scaled(call: Call, x: Value, middle: float, half: float) -> Value:
    """``x`` as a number between -1 and 1; what lies outside is of no interest, but must not overflow."""
    inner = call.emit("Div", call.emit("Sub", x, call.like(middle, x)), call.like(half, x))
    return call.emit("Clip", inner, call.like(-1, x), call.like(1, x))


@converter("BesselI0e")
@_wide
def bessel_i0e(call: Call, x: Value) -> Value:
    """The modified Bessel function of order 0, times exp(-|x|)."""
    size, eight = call.emit("Abs", x), call.like(8, x)
    near = _polynomial(call, _scaled(call, size, 4, 4), series.BESSEL_NEAR)
    turned = call.emit("Div", call.like(16, x), call.emit("Max", size, eight))
    far = _polynomial(call, call.emit("Sub", turned, call.like(1, x)), series.BESSEL_FAR)
    far = call.emit("Div", far, call.emit("Sqrt", call.emit("Max", size, eight)))
    return call.emit("Where", call.emit("LessOrEqual", size, eight), near, far)


@converter("Erfinv")
@_wide
def inverse_error(call: Call, x: Value) -> Value:
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    one = call.like(1, x)
    w = call.emit("Neg", call.emit("Log", call.emit("Mul", call.emit("Sub", one, x), call.emit("Add", one, x))))
    root = call.emit("Sqrt", w)
    ratio = _polynomial(call, _scaled(call, root, 5.125, 1.125), series.ERFINV_AT_ONE)
    for limit, t, coefficients in (
        (16.0, _scaled(call, root, 3.25, 0.75), series.ERFINV_NEAR_ONE),
        (6.25, _scaled(call, w, 3.125, 3.125), series.ERFINV_MIDDLE),
    ):
        inner = call.emit("Less", w, call.like(limit, x))
        ratio = call.emit("Where", inner, _polynomial(call, t, coefficients), ratio)
    ratio = call.emit("Where", call.emit("Less", w, call.like(np.inf, x)), ratio, w)
    return call.emit("Mul", x, ratio)


@converter("Lgamma")
@_wide
def log_gamma(call: Call, x: Value) -> Value:
    """The logarithm of the gamma function's absolute value: infinite at 0, -1, -2, ... and at both ends."""
    reflected = call.emit("Less", x, call.like(0.5, x))
    value = _by_lanczos(call, call.emit("Where", reflected, call.emit("Sub", call.like(1, x), x), x))
    away = call.emit("Sub", x, call.emit("Round", x))
    sine = call.emit("Abs", call.emit("Sin", call.emit("Mul", away, call.like(math.pi, x))))
    mirrored = call.emit("Log", call.emit("Div", call.like(math.pi, x), sine))
    value = call.emit("Where", reflected, call.emit("Sub", mirrored, value), value)
    # A negative number without a fraction is a pole, however large; infinity less infinity is none.
    endless = call.emit("Or", call.emit("IsInf", x), call.emit("And", reflected, _whole(call, x)))
    return call.emit("Where", endless, call.like(np.inf, x), value)


def _whole(call: Call, x: Value) -> Value:
    return call.emit("Equal", x, call.emit("Floor", x))


def _by_lanczos(call: Call, x: Value) -> Value:
    """For x from 0.5."""
    below = call.emit("Sub", x, call.like(1, x))
    total = call.like(_LANCZOS_TERMS[0], x)
    for place, term in enumerate(_LANCZOS_TERMS[1:], 1):
        share = call.emit("Div", call.like(term, x), call.emit("Add", below, call.like(place, x)))
        total = call.emit("Add", total, share)
    t = call.emit("Add", below, call.like(_LANCZOS + 0.5, x))
    main = call.emit("Mul", call.emit("Add", below, call.like(0.5, x)), call.emit("Log", t))
    rest = call.emit("Log", call.emit("Mul", total, call.like(math.sqrt(2 * math.pi), x)))
    return call.emit("Add", call.emit("Sub", main, t), rest)


@converter("Cross")
def cross(call: Call) -> Value:
    """The product of vectors in space, along the last axis."""
    a, b = ([call.slice(call.operand(i), -1, k, k + 1) for k in range(3)] for i in (0, 1))
    parts = []
    for first in range(3):
        i, j = (first + 1) % 3, (first + 2) % 3
        parts.append(call.emit("Sub", call.emit("Mul", a[i], b[j]), call.emit("Mul", a[j], b[i])))
    return call.emit("Concat", *parts, axis=-1)
