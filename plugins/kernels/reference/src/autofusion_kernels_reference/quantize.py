"""Quantisation: linear quantise and dequantise (tensor, axis, blocks), and the operators on quantised operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.cast import convert
from autofusion_kernels_reference.contraction import centred, exact_matmul, matrix_parameter
from autofusion_kernels_reference.convolution import exact_conv
from autofusion_kernels_reference.support import Inputs, OpFunction, is_float, normal_axis, optional

_UINT8 = np.dtype(np.uint8)


def _spread(node: Node, parameter: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A scale or zero point (scalar, one for each position of the axis, or one for each block) in ``x``'s shape."""
    parameter = parameter.astype(np.float64)
    if parameter.size == 1 and parameter.ndim <= 1:
        return parameter.reshape(())
    axis = normal_axis(node.attr("axis", 1), x.ndim)
    block = node.attr("block_size", 0)
    if block:
        return np.take(parameter, np.arange(x.shape[axis]) // block, axis=axis)
    if parameter.ndim != 1:
        return parameter
    return parameter.reshape([-1 if a == axis else 1 for a in range(x.ndim)])


def _range_of(dtype: np.dtype) -> tuple[int, int]:
    bits = int(dtype.name.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def saturated(y: np.ndarray, dtype: np.dtype, saturate: bool = True) -> np.ndarray:
    """``y`` rounded half to even and clamped to an integer type, or converted to a small floating one."""
    if is_float(dtype):
        return convert(y, dtype, saturate)
    low, high = _range_of(dtype)
    y = np.clip(np.rint(y), low, high)
    if np.isnan(y.sum()):  # whatever is not a number becomes zero
        y = np.where(np.isnan(y), 0, y)
    return y.astype(dtype) if dtype.kind in "iu" else y.astype(np.int8).astype(dtype)


def _quantize_linear(node: Node, inputs: Inputs) -> list[Any]:
    x, scale, zero = inputs[0], inputs[1], optional(inputs, 2)
    dtype = zero.dtype if zero is not None else node.attr("output_dtype") or _UINT8
    # The quotient is rounded to the scale's precision before it is rounded to an integer: ties depend on it.
    precision = np.float64 if np.float64 in (x.dtype, scale.dtype) else np.float32
    y = x.astype(precision) / _spread(node, scale, x).astype(precision)
    if is_float(dtype):
        y = y.astype(np.float64)
        return [saturated(y if zero is None else y + _spread(node, zero, x), dtype, bool(node.attr("saturate", 1)))]
    if dtype.itemsize > 2:
        y = y.astype(np.float64)
    # Integers of 16 bits and their sums are exact in float32; what is too large for that saturates.
    y = np.rint(y)
    return [saturated(y if zero is None else y + _spread(node, zero, x).astype(y.dtype), dtype)]


def _dequantize_linear(node: Node, inputs: Inputs) -> list[Any]:
    x, scale, zero = inputs[0], inputs[1], optional(inputs, 2)
    dtype = node.attr("output_dtype") or scale.dtype
    # A difference of 16-bit integers is exact in float32, so that the product is rounded once.
    small = dtype == np.float32 and scale.dtype == np.float32 and (x.dtype.itemsize <= 2 and not is_float(x.dtype))
    y = x.astype(np.float32 if small else np.float64)
    if zero is not None:
        y = y - _spread(node, zero, x).astype(y.dtype)
    return [(y * _spread(node, scale, x).astype(y.dtype)).astype(dtype)]


def _dynamic_quantize_linear(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0].astype(np.float32)
    low, high = np.minimum(0, x.min(initial=0)), np.maximum(0, x.max(initial=0))
    scale = np.float32((high - low) / np.float32(255))
    scale = scale if scale != 0 else np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    y = np.clip(np.rint(x / scale) + zero, 0, 255)
    return [y.astype(np.uint8), np.array(scale, np.float32), np.array(zero).astype(np.uint8)]


def _channels(parameter: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """A scale or zero point in float32: one, or one for each channel, shaped to broadcast."""
    parameter = parameter.astype(np.float32)
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if a == axis else 1 for a in range(rank)]) if parameter.ndim == 1 else parameter


def _requantised(total: np.ndarray, factor: np.ndarray, zero: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Exact sums, scaled in float32 as onnxruntime does it: the last bit of the factor decides how ties fall."""
    return saturated(np.rint(total.astype(np.float32) * factor) + zero, dtype)


def _qlinear_conv(node: Node, inputs: Inputs) -> list[Any]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = inputs[:8]
    bias = optional(inputs, 8)
    total = exact_conv(node, centred(x, _channels(x_zero, x.ndim, 1)), centred(w, _channels(w_zero, w.ndim, 0)))
    if bias is not None:
        total = total.astype(np.float64) + bias.reshape(-1, *[1] * (x.ndim - 2))
    factor = _channels(x_scale, x.ndim, 1) * _channels(w_scale, x.ndim, 1) / _channels(y_scale, x.ndim, 1)
    return [_requantised(total, factor, _channels(y_zero, x.ndim, 1), y_zero.dtype)]


def _qlinear_matmul(node: Node, inputs: Inputs) -> list[Any]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs

    def left(parameter: np.ndarray) -> Any:
        return matrix_parameter(parameter, a.ndim, rows=True).astype(np.float32)

    def right(parameter: np.ndarray) -> Any:
        return matrix_parameter(parameter, b.ndim, rows=False).astype(np.float32)

    total = exact_matmul(centred(a, left(a_zero)), centred(b, right(b_zero)))
    factor = left(a_scale) * right(b_scale) / left(y_scale)
    return [_requantised(total, factor, left(y_zero), y_zero.dtype)]


OPS: dict[str, OpFunction] = {
    "DequantizeLinear": _dequantize_linear,
    "DynamicQuantizeLinear": _dynamic_quantize_linear,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize_linear,
}
