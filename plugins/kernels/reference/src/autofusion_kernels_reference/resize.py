"""Resize: nearest, linear and cubic, one axis at a time, since every interpolation of the operator set is separable.

Each axis has a weight matrix [out, in]; the result is the tensor contracted with the matrices one after the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, normal_axes, optional, wide


def _coordinates(mode: str, size: int, out: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """The input coordinate of each output position, in float32: nearest modes round it, and scales are float32.

    A scale of 0.6 is a little more than 3/5 in float32. Only in the same precision does 1.5 / 0.6 give 2.5, the tie
    that whoever wrote the model had in mind, and not a coordinate that rounds to another element.
    """
    x, scale = np.arange(out, dtype=np.float32), np.float32(scale)
    half = np.float32(0.5)
    if mode == "asymmetric":
        return x / scale
    if mode == "half_pixel":
        return (x + half) / scale - half
    if mode == "half_pixel_symmetric":
        # Scaled as asked, then centred, so that a rounded size crops or extends both ends alike.
        offset = np.float32(size / 2) * (1 - np.float32(out) / (scale * np.float32(size)))
        return offset + (x + half) / scale - half
    if mode == "pytorch_half_pixel":
        return (x + half) / scale - half if out > 1 else np.zeros(out, np.float32)
    if mode == "align_corners":
        return x * np.float32(size - 1) / np.float32(out - 1) if out > 1 else np.zeros(out, np.float32)
    if mode == "tf_crop_and_resize":
        start, end, last = np.float32(roi[0]), np.float32(roi[1]), np.float32(size - 1)
        if out <= 1:
            return np.full(out, half * (start + end) * last)
        return start * last + x * (end - start) * last / np.float32(out - 1)
    raise ValueError(f"unknown coordinate_transformation_mode '{mode}'")


def _round_nearest(mode: str, x: np.ndarray) -> np.ndarray:
    if mode == "round_prefer_floor":
        return np.ceil(x - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(x + 0.5)
    if mode in ("floor", "ceil"):
        return np.floor(x) if mode == "floor" else np.ceil(x)
    raise ValueError(f"unknown nearest_mode '{mode}'")


def _triangle(distance: np.ndarray) -> np.ndarray:
    return np.maximum(0, 1 - np.abs(distance))


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Cubic convolution kernel (Keys 1981)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _weights(node: Node, mode: str, size: int, x: np.ndarray, scale: float) -> np.ndarray:
    """The matrix [out, in] that interpolates at coordinates ``x``."""
    matrix = np.zeros((len(x), size))
    rows = np.arange(len(x))
    if mode == "nearest":
        column = _round_nearest(node.attr("nearest_mode", "round_prefer_floor"), x)
        matrix[rows, np.clip(column, 0, size - 1).astype(int)] = 1
        return matrix
    # A downscale with antialiasing stretches the kernel, so that it covers every input element once.
    stretch = min(scale, 1.0) if node.attr("antialias", 0) else 1.0
    support = (1 if mode == "linear" else 2) / stretch
    first = np.floor(x - support).astype(int)
    count = math.ceil(2 * support) + 2
    coefficient = node.attr("cubic_coeff_a", -0.75)
    columns = first[:, None] + np.arange(count)[None, :]
    distance = (x[:, None] - columns) * stretch
    values = _triangle(distance) if mode == "linear" else _cubic(distance, coefficient)
    outside = (columns < 0) | (columns >= size)
    if node.attr("exclude_outside", 0):
        values = np.where(outside, 0, values)
    if stretch < 1 or node.attr("exclude_outside", 0):
        total = values.sum(1, keepdims=True)
        values = values / np.where(total == 0, 1, total)
    np.add.at(matrix, (rows[:, None], np.clip(columns, 0, size - 1)), values)
    return matrix


def _target(node: Node, shape: list[int], scales: Any, sizes: Any) -> tuple[list[int], list[float]]:
    """(output sizes, scales) of the resized axes whose input sizes are ``shape``."""
    if scales is not None and np.size(scales):
        # Sizes are products in single precision, as inference has them and run times compute them.
        resized = [math.floor(np.float32(n) * np.float32(s)) for n, s in zip(shape, np.ravel(scales), strict=True)]
        return resized, [float(s) for s in np.ravel(scales)]
    if sizes is None:
        raise ValueError("expected scales or sizes")
    wanted = integers(sizes)
    factors = [w / n for w, n in zip(wanted, shape, strict=True)]
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(shape)
        wanted = [math.floor(n * factor + 0.5) for n in shape]
    return wanted, factors


def _resize(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0]
    axes = normal_axes(node.attr("axes"), x.ndim)
    out, scales = _target(node, [x.shape[a] for a in axes], optional(inputs, 2), optional(inputs, 3))
    transform = node.attr("coordinate_transformation_mode", "half_pixel")
    mode = node.attr("mode", "nearest")
    roi = optional(inputs, 1)
    roi = [0.0] * len(axes) + [1.0] * len(axes) if roi is None or not np.size(roi) else [float(v) for v in roi]
    y = wide(x) if mode != "nearest" else x
    beyond = np.zeros((1,) * x.ndim, bool)
    for i, axis in enumerate(axes):
        size = x.shape[axis]
        if out[i] == size and scales[i] == 1 and transform != "tf_crop_and_resize":
            continue
        position = _coordinates(transform, size, out[i], scales[i], (roi[i], roi[i + len(axes)])).astype(np.float64)
        if transform == "tf_crop_and_resize":
            along = [-1 if a == axis else 1 for a in range(x.ndim)]
            beyond = beyond | ((position < 0) | (position > size - 1)).reshape(along)
        if mode == "nearest":
            column = _round_nearest(node.attr("nearest_mode", "round_prefer_floor"), position)
            y = np.take(y, np.clip(column, 0, size - 1).astype(int), axis=axis)
        else:
            y = _apply(_weights(node, mode, size, position, scales[i]), y, axis)
    if transform == "tf_crop_and_resize":
        y = np.where(beyond, node.attr("extrapolation_value", 0.0), y)
    # Integers are cut off, but for antialiasing, which is of images and rounds: so do the runtimes.
    return [_to_dtype(y if not node.attr("antialias", 0) or x.dtype.kind not in "iu" else np.rint(y), x.dtype)]


def _apply(matrix: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """Contract ``axis`` of ``y`` with a weight matrix [out, in] over its non-zero band.

    Element by element of the band rather than by matrix product, so that a NaN or infinity spreads only to the
    positions whose window it lies in.
    """
    moved = np.moveaxis(y, axis, 0)
    total = np.zeros((len(matrix), *moved.shape[1:]))
    band = int((matrix != 0).sum(1).max(initial=0))
    order = np.argsort(matrix == 0, axis=1, kind="stable")[:, :band]
    along = (-1, *[1] * (y.ndim - 1))
    for k in range(order.shape[1]):
        weight = np.take_along_axis(matrix, order[:, k : k + 1], 1)[:, 0].reshape(along)
        total += np.where(weight == 0, 0, weight * moved[order[:, k]])
    return np.moveaxis(total, 0, axis)


def _to_dtype(y: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu" and y.dtype.kind == "f":
        info = np.iinfo(dtype)
        return np.clip(np.trunc(y.astype(np.float32)), info.min, info.max).astype(dtype)
    return y.astype(dtype)


def _upsample(node: Node, inputs: Inputs) -> list[Any]:
    """Upsample (deprecated, still legal in old models) is an asymmetric, floor-rounding Resize."""
    x, scales = inputs
    y = x if node.attr("mode", "nearest") == "nearest" else wide(x)
    for axis, scale in enumerate(float(s) for s in scales):
        size = x.shape[axis]
        position = np.arange(math.floor(size * scale)) / scale
        if y.dtype == x.dtype and node.attr("mode", "nearest") == "nearest":
            y = np.take(y, np.floor(position).astype(int), axis=axis)
        elif scale != 1:
            y = _apply(_weights(node, "linear", size, position, scale), y, axis)
    return [_to_dtype(y, x.dtype)]


OPS: dict[str, OpFunction] = {"Resize": _resize, "Upsample": _upsample}
