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

    TensorFlow reads the kernel from a table. So do we: as products with a matrix for each direction.
    """
    coordinates = _coordinates(call)
    x, sizes = call.cast(call.operand(0), np.float32), call.vector(call.operand(1))
    call.rank(x)
    height, width = call.slice(sizes, 0, 0, 1), call.slice(sizes, 0, 1, 2)
    return by_matrices(
        call,
        x,
        _cubic(call, call.dim(x, 1), height, coordinates),
        _cubic(call, call.dim(x, 2), width, coordinates),
    )


def _cubic(call: Call, size: Value, wanted: Value, coordinates: str) -> Value:
    """Weights [wanted, size] of Keys' kernel, whose argument is a multiple of 1 / 1024.

    All are small vectors: where the sizes are known, they are constants.
    """

    def number(value: float) -> Value:
        return call.const(value, np.float32)

    def op(name: str, a: Value, b: Value) -> Value:
        return call.emit(name, a, b)

    half, one = coordinates == "half_pixel", call.ints([1])
    scale = _scale(call, size, wanted, coordinates == "align_corners", np.float32)
    rows = call.cast(_count(call, wanted), np.float32)
    shift = number(0.5 if half else 0)
    place = op("Sub", op("Mul", op("Add", rows, shift), scale), shift)
    first = call.emit("Floor", place)
    steps = call.emit("Round", op("Mul", op("Sub", place, first), number(1024)))
    taps = call.const([[-1, 0, 1, 2]], np.int64)
    offset = op("Div", call.unsqueeze(steps, 1), number(1024))
    weights = _keys(call, call.emit("Abs", op("Sub", offset, call.cast(taps, np.float32))), -0.5 if half else -0.75)
    columns = op("Add", call.unsqueeze(call.cast(first, np.int64), 1), taps)
    inside = op("Max", op("Min", columns, op("Sub", size, one)), call.ints([0]))
    if half:
        weights = call.emit("Where", op("Equal", inside, columns), weights, number(0))
        weights = op("Div", weights, call.emit("ReduceSum", weights, one, keepdims=1))
    hits = call.cast(op("Equal", call.unsqueeze(inside, 2), _count(call, size)), np.float32)
    return call.emit("ReduceSum", op("Mul", hits, call.unsqueeze(weights, 2)), one, keepdims=0)


def _keys(call: Call, distance: Value, a: float) -> Value:
    """Keys, 1981: two cubic pieces, of what is nearer than 1 and than 2."""

    def horner(*coefficients: float) -> Value:
        value = call.like(coefficients[0], distance)
        for coefficient in coefficients[1:]:
            value = call.emit("Add", call.emit("Mul", value, distance), call.like(coefficient, distance))
        return value

    near, far = horner(a + 2, -(a + 3), 0, 1), horner(a, -5 * a, 8 * a, -4 * a)
    return call.emit("Where", call.emit("LessOrEqual", distance, call.like(1, distance)), near, far)


@converter("ResizeArea")
def area(call: Call) -> Value:
    """The mean over the area of each new pixel: a product with a matrix for each direction."""
    x, sizes = call.cast(call.operand(0), np.float32), call.vector(call.operand(1))
    align = bool(call.attr("align_corners", False))
    call.rank(x)
    height, width = call.slice(sizes, 0, 0, 1), call.slice(sizes, 0, 1, 2)
    return by_matrices(
        call, x, _shares(call, call.dim(x, 1), height, align), _shares(call, call.dim(x, 2), width, align)
    )


def _shares(call: Call, size: Value, wanted: Value, align: bool) -> Value:
    """How much of each of ``size`` elements is in each of ``wanted`` equal intervals, as means."""
    whole, one = call.cast(size, np.float64), call.const(1, np.float64)
    scale = _scale(call, size, wanted, align, np.float64)
    low = call.unsqueeze(call.emit("Mul", call.cast(_count(call, wanted), np.float64), scale), 1)
    # The intervals of one element with aligned corners are empty, and stand for it all the same.
    some = call.emit("Greater", scale, call.const(0, np.float64))
    high = call.emit("Add", low, call.emit("Where", some, scale, one))
    if not align:
        high = call.emit("Min", high, whole)
    cells = call.cast(_count(call, size), np.float64)
    end = call.emit("Min", high, call.emit("Add", cells, one))
    share = call.emit("Max", call.emit("Sub", end, call.emit("Max", low, cells)), call.const(0, np.float64))
    total = call.emit("ReduceSum", share, call.ints([1]), keepdims=1)
    return call.cast(call.emit("Div", share, total), np.float32)


def _count(call: Call, size: Value) -> Value:
    """0, 1, ..., size - 1."""
    return call.emit("Range", call.ints(0), call.squeeze(size, 0), call.ints(1))


def _scale(call: Call, size: Value, wanted: Value, align: bool, dtype: type) -> Value:
    """How many of ``size`` elements are one of ``wanted``."""
    whole, made, one = call.cast(size, dtype), call.cast(wanted, dtype), call.const(1, dtype)
    scale = call.emit("Div", whole, made)
    if not align:
        return scale
    between = call.emit("Div", call.emit("Sub", whole, one), call.emit("Sub", made, one))
    return call.emit("Where", call.emit("Greater", wanted, call.ints([1])), between, scale)


def by_matrices(call: Call, x: Value, vertical: Value, horizontal: Value) -> Value:
    """``x`` with every column a product with ``vertical`` [height, rows], and every row with ``horizontal``."""
    wide = call.emit("MatMul", _LAYOUT.first(call, x), call.transpose(horizontal, [1, 0]))
    return _LAYOUT.back(call, call.emit("MatMul", vertical, wide))
