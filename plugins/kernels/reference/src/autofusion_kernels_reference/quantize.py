"""Quantisation: linear quantise and dequantise (tensor, axis, blocks), and the operators on quantised operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.cast import convert
from autofusion_kernels_reference.contraction import exact_matmul
from autofusion_kernels_reference.convolution import conv_of
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
    """Float64 ``y`` rounded half to even and clamped to an integer type, or converted to a small floating one."""
    if is_float(dtype):
        return convert(y, dtype, saturate)
    low, high = _range_of(dtype)
    rounded = np.clip(np.rint(y), low, high)
    return np.where(np.isnan(rounded), 0, rounded).astype(np.int64).astype(dtype)


def _quantize_linear(node: Node, inputs: Inputs) -> list[Any]:
    x, scale, zero = inputs[0], inputs[1], optional(inputs, 2)
    dtype = zero.dtype if zero is not None else node.attr("output_dtype") or _UINT8
    # The quotient is rounded to the scale's precision before it is rounded to an integer: ties depend on it.
    precision = np.float64 if np.float64 in (x.dtype, scale.dtype) else np.float32
    y = x.astype(precision) / _spread(node, scale, x).astype(precision)
    y = y.astype(np.float64)
    if is_float(dtype):
        return [saturated(y if zero is None else y + _spread(node, zero, x), dtype, bool(node.attr("saturate", 1)))]
    return [saturated(np.rint(y) + (0 if zero is None else _spread(node, zero, x)), dtype)]


def _dequantize_linear(node: Node, inputs: Inputs) -> list[Any]:
    x, scale, zero = inputs[0], inputs[1], optional(inputs, 2)
    y = x.astype(np.float64)
    if zero is not None:
        y = y - _spread(node, zero, x)
    return [(y * _spread(node, scale, x)).astype(node.attr("output_dtype") or scale.dtype)]


def _dynamic_quantize_linear(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0].astype(np.float32)
    low, high = np.minimum(0, x.min(initial=0)), np.maximum(0, x.max(initial=0))
    scale = np.float32((high - low) / np.float32(255))
    scale = scale if scale != 0 else np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    y = np.clip(np.rint(x / scale) + zero, 0, 255)
    return [y.astype(np.uint8), np.array(scale, np.float32), np.array(zero).astype(np.uint8)]


def _channels(parameter: np.ndarray, rank: int, axis: int) -> np.ndarray:
    parameter = parameter.astype(np.float64)
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if a == axis else 1 for a in range(rank)]) if parameter.ndim == 1 else parameter


def _qlinear_conv(node: Node, inputs: Inputs) -> list[Any]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = inputs[:8]
    bias = optional(inputs, 8)
    centred = x.astype(np.float64) - _channels(x_zero, x.ndim, 1)
    total = conv_of(node, centred, w.astype(np.float64) - _channels(w_zero, w.ndim, 0))
    if bias is not None:
        total = total + _channels(bias.reshape(-1), total.ndim, 1)
    factor = _channels(x_scale, x.ndim, 1) * _channels(w_scale, x.ndim, 1) / _channels(y_scale, x.ndim, 1)
    return [saturated(np.rint(total * factor) + _channels(y_zero, x.ndim, 1), y_zero.dtype)]


def _matrix_parameter(parameter: np.ndarray, matrix_rank: int, *, rows: bool) -> np.ndarray:
    """A scale or zero point of a matrix operand: a scalar, one for each row, or one for each column."""
    parameter = parameter.astype(np.float64)
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter[:, None] if parameter.ndim == 1 and rows and matrix_rank > 1 else parameter


def _qlinear_matmul(node: Node, inputs: Inputs) -> list[Any]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    left = a.astype(np.float64) - _matrix_parameter(a_zero, a.ndim, rows=True)
    right = b.astype(np.float64) - _matrix_parameter(b_zero, b.ndim, rows=False)
    total = np.asarray(exact_matmul(left, right), np.float64)
    factor = _matrix_parameter(a_scale, a.ndim, rows=True) * _matrix_parameter(b_scale, b.ndim, rows=False)
    factor = factor / _matrix_parameter(y_scale, a.ndim, rows=True)
    return [saturated(np.rint(total * factor) + _matrix_parameter(y_zero, a.ndim, rows=True), y_zero.dtype)]


OPS: dict[str, OpFunction] = {
    "DequantizeLinear": _dequantize_linear,
    "DynamicQuantizeLinear": _dynamic_quantize_linear,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize_linear,
}
