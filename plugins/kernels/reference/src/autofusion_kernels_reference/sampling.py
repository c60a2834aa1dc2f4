"""Sampling of feature maps at computed positions: GridSample, AffineGrid, and the sampler that others share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, wide

_CUBIC = -0.75
"""The free coefficient of the cubic convolution kernel (Keys, 1981), as the operator set fixes it for GridSample."""

_REACH = 3
"""No tap of any kernel lies this far from its position."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One tap of a one-dimensional kernel at every position: where it reads, with what weight, and whether inside."""

    index: np.ndarray
    weight: np.ndarray
    inside: np.ndarray | None
    """None where every tap lies inside by construction."""


def _cubic_weight(distance: np.ndarray) -> np.ndarray:
    a, d = _CUBIC, np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _reflected(index: np.ndarray, size: int, align_corners: bool) -> np.ndarray:
    """Indices mirrored into [0, size): about the outer elements' centres, or about their outer edges."""
    if size == 1:
        return np.zeros_like(index)
    period = 2 * (size - 1) if align_corners else 2 * size
    last = period if align_corners else period - 1
    index = np.mod(index, period)
    return np.minimum(index, last - index)


def _finite(position: np.ndarray, size: int, padding: str) -> np.ndarray:
    """Positions of any value as ones that fit an index, without changing what is sampled there.

    Beyond ``_REACH`` of the map only padding is seen. What is not a number is outside with zeros, else the first
    element; an infinite position has no mirror image, and samples the first element too.
    """
    if padding == "reflection":
        return np.where(np.abs(position) < 2.0**52, position, np.where(np.isfinite(position), np.rint(position), 0.0))
    low, high = -float(_REACH), float(size - 1 + _REACH)
    return np.where(np.isnan(position), low, np.clip(position, low, high))


def taps(position: np.ndarray, size: int, mode: str, padding: str, align_corners: bool = False) -> list[Tap]:
    """The taps along one axis of ``size`` elements for float64 ``position`` (in elements): 1, 2 or 4 of them.

    Each tap is padded on its own; the position itself is not moved.
    """
    position = _finite(position, size, padding)
    if padding == "reflection":  # the period is taken off first, so that a huge position still fits an index
        period = max(1, 2 * (size - 1) if align_corners else 2 * size)
        position = np.fmod(position, period)
    if mode == "nearest":
        base, offsets = np.rint(position), [0]
    elif mode == "linear":
        base, offsets = np.floor(position), [0, 1]
    elif mode == "cubic":
        base, offsets = np.floor(position), [-1, 0, 1, 2]
    else:
        raise ValueError(f"mode is one of nearest, linear and cubic, not '{mode}'")
    fraction = position - base
    found = []
    for offset in offsets:
        index = base.astype(np.int64) + offset
        if mode == "nearest":
            weight = np.ones_like(fraction)
        elif mode == "linear":
            weight = fraction if offset else 1 - fraction
        else:
            weight = _cubic_weight(fraction - offset)
        inside = None
        if padding == "zeros":
            inside = (index >= 0) & (index < size)
            index = np.clip(index, 0, size - 1)
        elif padding == "border":
            index = np.clip(index, 0, size - 1)
        elif padding == "reflection":
            index = _reflected(index, size, align_corners)
        else:
            raise ValueError(f"padding_mode is one of zeros, border and reflection, not '{padding}'")
        found.append(Tap(index, weight, inside))
    return found


def sample(x: np.ndarray, axes: Sequence[Sequence[Tap]]) -> np.ndarray:
    """Values [N, P, C] of ``x`` [N, C, *size] at P positions of each batch; ``axes`` hold taps [N, P] for each axis.

    In float64 (rounded by the caller), or, for a single tap, in the type of ``x``.
    """
    n, c, *size = x.shape
    rows = np.ascontiguousarray(np.moveaxis(x.reshape(n, c, -1), 1, 2)).reshape(-1, c)
    points = axes[0][0].index.shape[1]
    combinations = list(itertools.product(*axes))
    single = len(combinations) == 1
    total = np.zeros((n * points, c), x.dtype if single else np.float64)
    if not total.size or not rows.size:
        return total.reshape(n, points, c)
    for combination in combinations:
        index: Any = np.arange(n)[:, None]
        weight: Any = 1.0
        outside: Any = None
        for tap, length in zip(combination, size, strict=True):
            index = index * length + tap.index
            weight = weight * tap.weight
            if tap.inside is not None:
                outside = ~tap.inside if outside is None else outside | ~tap.inside
        seen = np.take(rows, index.ravel(), axis=0)
        if outside is not None and outside.any():
            seen[outside.ravel()] = np.zeros((), x.dtype)
        if single:
            total = seen
        else:
            total += wide(seen) * weight.reshape(-1, 1)
    return total.reshape(n, points, c)


_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _grid_sample(node: Node, inputs: Inputs) -> list[Any]:
    """X [N, C, *size] sampled at grid [N, *out, rank] (last axis innermost first, -1 to 1) -> [N, C, *out]."""
    x, grid = inputs
    n, c, *size = x.shape
    out = grid.shape[1:-1]
    mode, padding = node.attr("mode", "linear"), node.attr("padding_mode", "zeros")
    mode = _MODES.get(mode, mode)
    align = bool(node.attr("align_corners", 0))
    if len(size) != grid.shape[-1]:
        raise ValueError(f"a grid for {len(size)} spatial axes has {len(size)} coordinates, not {grid.shape[-1]}")
    # Where a position decides which element is taken, it is computed in the grid's precision, as everywhere else.
    precision = np.float32 if mode == "nearest" and grid.dtype != np.float64 else np.float64
    axes = []
    for axis, length in enumerate(size):
        at = grid[..., len(size) - 1 - axis].reshape(n, -1).astype(precision)
        at = (at + 1) / 2 * (length - 1) if align else ((at + 1) * length - 1) / 2
        axes.append(taps(at.astype(np.float64), length, mode, padding, align))
    y = sample(x, axes)
    return [np.moveaxis(y, 1, 2).reshape(n, c, *out).astype(x.dtype)]


def _affine_grid(node: Node, inputs: Inputs) -> list[Any]:
    """theta [N, rank, rank + 1], size (N, C, *size) -> grid [N, *size, rank]."""
    theta, size = inputs[0], integers(inputs[1])[2:]
    align = bool(node.attr("align_corners", 0))
    steps = []
    for length in size:
        if align:
            steps.append(np.linspace(-1, 1, length) if length > 1 else np.zeros(length))
        else:
            steps.append((2 * np.arange(length) + 1) / length - 1)
    # A coordinate is a sum of one term for each axis: nothing is multiplied at every point.
    rank, weights = len(size), wide(theta)
    grid = np.empty((len(theta), *size, rank), theta.dtype)
    for coordinate in range(rank):
        total: Any = weights[:, coordinate, rank].reshape(-1, *[1] * rank)
        for axis in range(rank):
            term = weights[:, coordinate, rank - 1 - axis, None] * steps[axis]
            total = total + term.reshape(-1, *[size[axis] if a == axis else 1 for a in range(rank)])
        grid[..., coordinate] = total
    return [grid]


OPS: dict[str, OpFunction] = {"AffineGrid": _affine_grid, "GridSample": _grid_sample}
