"""Resizing of images, by the three conventions of where a pixel lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.layout import Layout
from autofusion_frontend_tensorflow.registry import converter

_LAYOUT = Layout(True, 2)


def _coordinates(call: Call) -> str:
    align, half = bool(call.attr("align_corners", False)), bool(call.attr("half_pixel_centers", False))
    if align and half:
        call.fail("align_corners and half_pixel_centers exclude each other")
    return "align_corners" if align else "half_pixel" if half else "asymmetric"


def _resized(call: Call, x: Value, **attrs: Any) -> Value:
    sizes = call.vector(call.operand(1))
    whole = call.emit("Concat", call.dim(x, 0), call.dim(x, 3), sizes, axis=0)
    return _LAYOUT.back(call, call.emit("Resize", _LAYOUT.first(call, x), None, None, whole, **attrs))


def _floating(call: Call) -> Value:
    x = call.operand(0)
    return x if call.dtype(x).kind == "f" else call.cast(x, np.float32)


@converter("ResizeBilinear")
def bilinear(call: Call) -> Value:
    """The result is float32 whatever the operand is."""
    value = _resized(call, _floating(call), mode="linear", coordinate_transformation_mode=_coordinates(call))
    return call.cast(value, np.float32)


@converter("ResizeNearestNeighbor")
def nearest(call: Call) -> Value:
    """Rounds down, or to the nearest (half upwards) with corners aligned."""
    coordinates = _coordinates(call)
    rounding = {"asymmetric": "floor", "half_pixel": "round_prefer_ceil", "align_corners": "round_prefer_ceil"}
    return _resized(
        call,
        call.operand(0),
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding[coordinates],
    )


@converter("ResizeBicubic")
def bicubic(call: Call) -> Value:
    """Keys' kernel: with half pixels a = -0.5 and what lies outside left out, else a = -0.75.

    TensorFlow reads the kernel from a table. Where sizes are known, so do we: as matrices, one for each direction.
    """
    coordinates = _coordinates(call)
    half = coordinates == "half_pixel"
    x, sizes = _floating(call), call.operand(1).const
    call.rank(x)
    assert x.shape is not None
    rows, columns = x.shape[1], x.shape[2]
    if sizes is not None and isinstance(rows, int) and isinstance(columns, int):
        height, width = (int(n) for n in sizes)
        vertical, horizontal = _cubic(rows, height, coordinates), _cubic(columns, width, coordinates)
        return _by_matrices(call, call.cast(x, np.float32), vertical, horizontal)
    value = _resized(
        call,
        x,
        mode="cubic",
        coordinate_transformation_mode=coordinates,
        cubic_coeff_a=-0.5 if half else -0.75,
        exclude_outside=int(half),
    )
    return call.cast(value, np.float32)


def _cubic(size: int, wanted: int, coordinates: str) -> np.ndarray:
    """Weights [wanted, size] of Keys' kernel, whose argument is a multiple of 1 / 1024."""
    half = coordinates == "half_pixel"
    aligned = coordinates == "align_corners" and wanted > 1
    scale = np.float32(size - 1) / np.float32(wanted - 1) if aligned else np.float32(size) / np.float32(wanted)
    shift = np.float32(0.5 if half else 0)
    place = (np.arange(wanted, dtype=np.float32) + shift) * scale - shift
    first = np.floor(place)
    offset = np.rint((place - first) * np.float32(1024)) / 1024
    columns = first.astype(int)[:, None] + np.arange(-1, 3)
    distance = np.abs(offset[:, None] - np.arange(-1, 3))
    a = -0.5 if half else -0.75
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    weights = np.where(distance <= 1, near, far)
    inside = np.clip(columns, 0, size - 1)
    if half:
        weights = np.where(inside == columns, weights, 0)
        weights = weights / weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((wanted, size))
    np.add.at(matrix, (np.arange(wanted)[:, None], inside), weights)
    return matrix


def _weights(size: int, wanted: int, align: bool) -> np.ndarray:
    """How much of each of ``size`` elements is in each of ``wanted`` equal intervals, as means."""
    scale = (size - 1) / (wanted - 1) if align and wanted > 1 else size / wanted
    low = np.arange(wanted)[:, None] * scale
    high = np.minimum(low + scale, size) if not align else low + scale
    cells = np.arange(size)[None, :]
    share = np.clip(np.minimum(high, cells + 1) - np.maximum(low, cells), 0, None)
    return share / share.sum(axis=1, keepdims=True)


@converter("ResizeArea")
def area(call: Call) -> Value:
    """The mean over the area of each new pixel: a product with a matrix for each direction."""
    x = call.cast(call.operand(0), np.float32)
    height, width = call.known_ints(1, "size")
    align = bool(call.attr("align_corners", False))
    call.rank(x)
    assert x.shape is not None
    rows, columns = x.shape[1], x.shape[2]
    if not isinstance(rows, int) or not isinstance(columns, int):
        call.fail(f"the size of '{x.name}' must be known, found {x.type}")
    return _by_matrices(call, x, _weights(rows, height, align), _weights(columns, width, align))


def _by_matrices(call: Call, x: Value, vertical: np.ndarray, horizontal: np.ndarray) -> Value:
    """``x`` with every column a product with ``vertical`` [height, rows], and every row with ``horizontal``."""
    wide = call.emit("MatMul", _LAYOUT.first(call, x), call.const(horizontal.T, np.float32))
    return _LAYOUT.back(call, call.emit("MatMul", call.const(vertical, np.float32), wide))
