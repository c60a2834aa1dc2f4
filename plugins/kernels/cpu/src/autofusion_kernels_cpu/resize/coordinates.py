"""From a Resize node to tables: for each output position of each axis, the input positions it mixes and their weights.

Interpolation is separable and linear, so a table of taps per axis says everything; modes never reach the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_cpu.support import constant
from autofusion_kernels_cpu.unsupported import Unsupported

_Rounding = Callable[[np.ndarray], np.ndarray]
_NEAREST: dict[str, _Rounding] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, slots=True)
class Taps:
    """`index` and `weight` are [out, taps]; no weight is zero, so that a NaN only spreads where its weight is not."""

    index: np.ndarray
    weight: np.ndarray

    @property
    def count(self) -> int:
        return int(self.index.shape[1])


def identity(size: int) -> Taps:
    """The axis as it is."""
    return Taps(np.arange(size, dtype=np.int64)[:, None], np.ones((size, 1)))


def axis_taps(node: Node, shape: Sequence[int], out: Sequence[int]) -> list[Taps]:
    """The taps of every axis. Raises Unsupported."""
    rank = len(shape)
    axes = [int(a) % rank for a in node.attr("axes") or range(rank)]
    scales, roi = _scales(node, [shape[a] for a in axes], [out[a] for a in axes]), _roi(node, len(axes))
    taps = [identity(size) for size in shape]
    for axis, scale, span in zip(axes, scales, roi, strict=True):
        if out[axis] == shape[axis] and scale == 1 and _transform(node) != "tf_crop_and_resize":
            continue
        taps[axis] = _taps(node, shape[axis], out[axis], scale, span)
    return taps


def _transform(node: Node) -> str:
    return str(node.attr("coordinate_transformation_mode") or "half_pixel")


def _scales(node: Node, shape: Sequence[int], out: Sequence[int]) -> list[float]:
    scales, sizes = constant(node, 2), constant(node, 3)
    if scales is not None and scales.size:
        return [float(s) for s in scales.ravel()]
    if sizes is None or not sizes.size:
        raise Unsupported("neither its scales nor its sizes are constant")
    factors = [wanted / max(size, 1) for wanted, size in zip(map(int, sizes.ravel()), shape, strict=True)]
    policy = node.attr("keep_aspect_ratio_policy") or "stretch"
    if policy != "stretch":
        factors = [min(factors) if policy == "not_larger" else max(factors)] * len(shape)
    return factors


def _roi(node: Node, axes: int) -> list[tuple[float, float]]:
    value = node.operand(1)
    if _transform(node) != "tf_crop_and_resize" or value is None:
        return [(0.0, 1.0)] * axes
    if value.const is None:
        raise Unsupported("its region of interest is not constant")
    roi = value.const.astype(np.float64).ravel()
    return [(float(roi[i]), float(roi[i + axes])) for i in range(axes)]


def _coordinates(mode: str, size: int, out: int, scale: float, span: tuple[float, float]) -> np.ndarray:
    """Where output positions lie on the input axis (the formulas of the operator's specification), in float32.

    Scales are float32, in which 0.6 is a little more than 3/5: only in the same precision does a nearest mode meet the
    ties that whoever wrote the model had in mind.
    """
    x, half, last = np.arange(out, dtype=np.float32), np.float32(0.5), np.float32(size - 1)
    factor = np.float32(scale)
    if mode == "half_pixel":
        return (x + half) / factor - half
    if mode == "asymmetric":
        return x / factor
    if mode == "pytorch_half_pixel":
        return (x + half) / factor - half if out > 1 else np.zeros(out, np.float32)
    if mode == "align_corners":
        return x * last / np.float32(out - 1) if out > 1 else np.zeros(out, np.float32)
    if mode == "half_pixel_symmetric":
        offset = np.float32(size / 2) * (1 - np.float32(out) / (factor * np.float32(size)))
        return offset + (x + half) / factor - half
    if mode == "tf_crop_and_resize":
        start, end = np.float32(span[0]), np.float32(span[1])
        if out <= 1:
            return np.full(out, half * (start + end) * last)
        return start * last + x * (end - start) * last / np.float32(out - 1)
    raise Unsupported(f"its coordinate_transformation_mode '{mode}' is unknown")


def _taps(node: Node, size: int, out: int, scale: float, span: tuple[float, float]) -> Taps:
    if not size or not out:
        return Taps(np.zeros((out, 1), np.int64), np.ones((out, 1)))
    transform = _transform(node)
    x = _coordinates(transform, size, out, scale, span).astype(np.float64)
    if transform == "tf_crop_and_resize" and ((x < 0) | (x > size - 1)).any():
        raise Unsupported("it extrapolates beyond its input")
    mode = node.attr("mode") or "nearest"
    if mode == "nearest":
        rounding = node.attr("nearest_mode") or "round_prefer_floor"
        if rounding not in _NEAREST:
            raise Unsupported(f"its nearest_mode '{rounding}' is unknown")
        index = np.clip(_NEAREST[rounding](x), 0, size - 1).astype(np.int64)[:, None]
        return Taps(index, np.ones(index.shape))
    if mode not in ("linear", "cubic"):
        raise Unsupported(f"its mode '{mode}' is unknown")
    # An antialiased downscale stretches the kernel over all input positions that an output position stands for.
    stretch = min(scale, 1.0) if node.attr("antialias", 0) else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    columns = np.floor(x - reach).astype(np.int64)[:, None] + np.arange(int(np.ceil(2 * reach)) + 2)
    distance = np.abs(x[:, None] - columns) * stretch
    weight = np.maximum(0, 1 - distance) if mode == "linear" else _cubic(distance, node.attr("cubic_coeff_a", -0.75))
    exclude = bool(node.attr("exclude_outside", 0))
    if exclude:
        weight = np.where((columns < 0) | (columns >= size), 0, weight)
    if stretch < 1 or exclude:
        total = weight.sum(1, keepdims=True)
        weight = weight / np.where(total == 0, 1, total)
    return _pack(np.clip(columns, 0, size - 1), weight)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel (1981) at distances >= 0."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = a * (distance**3 - 5 * distance**2 + 8 * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _pack(columns: np.ndarray, weight: np.ndarray) -> Taps:
    """Merge equal columns, drop zero weights, and give every position as many taps as the one with most.

    Positions with fewer get their heaviest tap several times, its weight shared: halving a float32 is exact.
    """
    rows = []
    for c, w in zip(columns, weight, strict=True):
        # Not np.unique: it imports numpy.ma, which takes longer than most models' plans.
        first = int(c.min())
        used = np.flatnonzero(np.bincount(c - first))
        summed = np.bincount(c - first, w)[used]
        kept = summed != 0
        rows.append((used[kept] + first, summed[kept]) if kept.any() else (used[:1] + first, summed[:1]))
    count = max(len(c) for c, _ in rows)
    index, weights = np.zeros((len(rows), count), np.int64), np.zeros((len(rows), count))
    for i, (c, w) in enumerate(rows):
        order, shares = list(c), list(w)
        while len(order) < count:
            heaviest = int(np.argmax(np.abs(shares)))
            shares[heaviest] /= 2
            order.append(order[heaviest])
            shares.append(shares[heaviest])
        index[i], weights[i] = order, shares
    return Taps(index, weights)
