"""Where a sampled position reads and with what weight, for a vector of positions at once.

Positions are float64 and weights float32: what decides between elements is computed as the reference kernels do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.values import F32, F64, I32, Value, Vec

_CUBIC = -0.75
"""The free coefficient of the cubic convolution kernel (Keys, 1981)."""
_REACH = 3.0
"""No tap lies this far from its position."""
TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
"""Taps along one axis."""


@dataclass(frozen=True, slots=True)
class Tap:
    """Indices (i32), weights (float32; None: one) and the lanes that read at all (None: every lane)."""

    index: Vec
    weight: Vec | None
    inside: Vec | None


@dataclass(frozen=True, slots=True)
class Length:
    """The size of an axis in every lane, as i32 and as float64."""

    whole: Vec
    real: Vec

    @staticmethod
    def of(f: Function, size: Value) -> Length:
        """Of a scalar i64."""
        return Length(f.splat(f.convert(size, I32), f.lanes), f.splat(f.convert(size, F64), f.lanes))


def axis_taps(f: Function, at: Vec, size: Length, mode: str, padding: str, align: bool) -> list[Tap]:
    """The taps of float64 positions `at` (in elements) along an axis; each is padded on its own."""
    period = None
    if padding == "reflection":
        period = f.max_keep(size.real * 2.0 - (2.0 if align else 0.0), f.const(1.0, at.type))
        at = _remainder(f, f.select(f.abs(at) < math.inf, at, 0.0), period)
    else:
        # Beyond the reach of a tap only padding is seen; what is not a number lies outside, or at the first element.
        at = f.select(f.is_nan(at), -_REACH, f.min_keep(f.max_keep(at, f.const(-_REACH, at.type)), size.real + 2.0))
    base = f.rint(at) if mode == "nearest" else f.floor(at)
    fraction = f.convert(at - base, F32)
    first = f.convert(base, I32)
    offsets = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]
    found = []
    for offset in offsets:
        index, inside = first + offset, None
        if period is None:
            clamped = f.min_keep(f.max_keep(index, f.const(0, index.type)), size.whole - 1)
            inside = f.eq(index, clamped) if padding == "zeros" else None
            index = clamped
        else:
            index = _mirrored(f, index, f.convert(period, I32), size.whole, align)
        found.append(Tap(index, _weight(f, fraction, mode, offset), inside))
    return found


def _remainder(f: Function, x: Vec, period: Vec) -> Vec:
    """The remainder with the sign of x, exact for finite x: each round takes 52 bits of the quotient."""
    a = f.abs(x)
    for _ in range(3):
        a = f.fma(-f.trunc(a / period), period, a)
        a = f.select(a < 0.0, a + period, a)
    return f.copysign(f.select(a >= period, a - period, a), x)


def _mirrored(f: Function, index: Vec, period: Vec, size: Vec, align: bool) -> Vec:
    """Indices of (-2 periods, 2 periods) mirrored into [0, size)."""
    for _ in range(3):
        index = f.select(index < 0, index + period, index)
    for _ in range(3):
        index = f.select(index >= period, index - period, index)
    last = period if align else period - 1
    mirrored = f.min_keep(index, last - index)
    return f.select(f.eq(size, 1), 0, mirrored)


def _weight(f: Function, fraction: Vec, mode: str, offset: int) -> Vec | None:
    if mode == "nearest":
        return None
    if mode == "linear":
        return fraction if offset else 1.0 - fraction
    a, d = _CUBIC, f.abs(fraction - float(offset))
    if offset in (0, 1):
        return ((a + 2) * d - (a + 3)) * d * d + 1.0
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def combined(f: Function, axes: Sequence[Sequence[Tap]], sizes: Sequence[Length]) -> list[Tap]:
    """The taps of all axes together, their indices counted from the start of a map of these sizes."""
    found = []
    for combination in itertools.product(*axes):
        index, weight, inside = combination[0].index, combination[0].weight, combination[0].inside
        for tap, size in zip(combination[1:], sizes[1:], strict=True):
            index = index * size.whole + tap.index
            weight = tap.weight if weight is None else weight if tap.weight is None else weight * tap.weight
            inside = tap.inside if inside is None else inside if tap.inside is None else inside & tap.inside
        found.append(Tap(index, weight, inside))
    return found
