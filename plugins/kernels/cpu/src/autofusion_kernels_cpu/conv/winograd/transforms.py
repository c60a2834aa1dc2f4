"""The matrices of Winograd's minimal filtering, and code that multiplies by them with few instructions.

F(m, 3) computes m outputs of a 3-tap filter with m + 2 products: `output @ ((filter @ g) * (input @ d))`. Two
dimensions nest: `A (G g G' * B d B') A'`. The matrices follow from interpolation points (Toom-Cook): evaluate both
polynomials at m + 1 points and at infinity, multiply, interpolate; filtering is the transpose of that.

The points decide the rounding error. For m = 4, 0, +-1/sqrt(2), +-sqrt(2) give three to five times less of it than
the usual 0, +-1, +-2: the powers of the points stay closer to one.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.values import Value

TAPS = 3
POINTS: dict[int, tuple[float, ...]] = {
    2: (0.0, 1.0, -1.0),
    4: (0.0, math.sqrt(0.5), -math.sqrt(0.5), math.sqrt(2.0), -math.sqrt(2.0)),
}
"""Finite points for each tile size; those of equal magnitude are neighbours, so that they share arithmetic."""
_ZERO = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Transforms:
    """`output` [m, n], `filter` [n, 3] and `input` [n, n] of F(m, 3), n = m + 2, in float64."""

    output: np.ndarray
    filter: np.ndarray
    input: np.ndarray


@functools.cache
def transforms(tile: int) -> Transforms:
    """The matrices for tiles of `tile` outputs."""
    points = POINTS[tile]
    n = tile + TAPS - 1
    infinity = np.zeros((1, n))
    infinity[0, -1] = 1.0
    output = np.vstack([np.vander(points, tile, increasing=True), infinity[:, -tile:]]).T
    others = [[q for q in points if q != p] for p in points]
    scale = np.array([math.prod(p - q for q in rest) for p, rest in zip(points, others, strict=True)])
    taps = np.vstack([np.vander(points, TAPS, increasing=True) / scale[:, None], infinity[:, -TAPS:]])
    # Row of point p: the coefficients of the polynomial that vanishes at all other points, constant term first.
    rows = [np.append(np.poly(rest)[::-1], 0.0) for rest in others]
    return Transforms(output, taps, np.vstack([*rows, np.poly(points)[::-1]]))


def multiply(f: Function, matrix: np.ndarray, values: list[Value]) -> list[Value]:
    """`matrix @ values`, sharing what the columns or the rows of points of equal magnitude have in common."""
    values, matrix = _join_columns(f, matrix, values)
    results: list[Value] = []
    while len(results) < len(matrix):
        i = len(results)
        pair = _even_and_odd(matrix[i : i + 2])
        if pair is None:
            results.append(_dot(f, matrix[i], values))
            continue
        # Rows e + o and e - o.
        even, odd = pair
        factor = float(odd[np.flatnonzero(odd)[-1]])
        e, o = _dot(f, even, values), _dot(f, odd / factor, values)
        results += [f.fma(o, factor, e), f.fma(o, -factor, e)]
    return results


def _join_columns(f: Function, matrix: np.ndarray, values: list[Value]) -> tuple[list[Value], np.ndarray]:
    """Replace values whose columns differ in signs only by their sum and their difference."""
    made: list[Value] = []
    columns: list[np.ndarray] = []
    j = 0
    while j < len(values):
        a = matrix[:, j]
        b = matrix[:, j + 1] if j + 1 < len(values) else np.zeros(0)
        used = np.abs(a) > _ZERO
        if len(b) and np.count_nonzero(used) > 1 and np.allclose(np.abs(a), np.abs(b)):
            same = np.where(a * b > 0, a, 0.0)
            made += [f.add(values[j], values[j + 1]), f.sub(values[j], values[j + 1])]
            columns += [same, a - same]
            j += 2
        else:
            made.append(values[j])
            columns.append(a)
            j += 1
    return made, np.stack(columns, axis=1)


def _even_and_odd(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Two rows as (e, o) with e + o and e - o, if e and o use different values."""
    if len(rows) < 2:
        return None
    even, odd = (rows[0] + rows[1]) / 2, (rows[0] - rows[1]) / 2
    even, odd = np.where(np.abs(even) > _ZERO, even, 0.0), np.where(np.abs(odd) > _ZERO, odd, 0.0)
    return (even, odd) if np.any(even) and np.any(odd) and not np.any(even * odd) else None


def _dot(f: Function, row: np.ndarray, values: list[Value]) -> Value:
    """The sum of `row * values`: additions where a factor is one, fused multiply-adds elsewhere."""
    terms = [(float(c), v) for c, v in zip(row, values, strict=True) if abs(c) > _ZERO]
    terms.sort(key=lambda term: not math.isclose(term[0], 1.0))
    first, total = terms[0]
    if not math.isclose(first, 1.0):
        total = f.mul(total, first)
    for factor, value in terms[1:]:
        if math.isclose(abs(factor), 1.0):
            total = f.add(total, value) if factor > 0 else f.sub(total, value)
        else:
            total = f.fma(value, factor, total)
    return total
