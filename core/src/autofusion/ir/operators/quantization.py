"""Quantization: linear maps between real and small integer (or 8-bit float) elements.

Scales and zero points may lie along any axis or in blocks, so these are not pointwise operators in the strict sense.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.reduction import per_element
from autofusion.ir.operators.schema import OpClass, Operator, attribute, register
from autofusion.ir.types import TensorType, Type

_U8 = np.dtype(np.uint8)


def _check_scale(node: Node) -> None:
    """A scale is a scalar, a vector along ``axis``, or has one entry for each block along ``axis``."""
    dims, scale = shapes.shape(node, 0), shapes.shape(node, 1)
    zero = shapes.shape(node, 2)
    if scale is None or shapes.product(scale) == 1:
        if zero is not None and isinstance(shapes.product(zero), int) and shapes.product(zero) != 1:
            shapes.fail(node, f"a single scale needs a single zero point, found {shapes.show(zero)}")
        return
    shapes.agree_shapes(node, scale, zero, "shapes of scale and zero point")
    if dims is None:
        return
    axis = shapes.axis_of(node, attribute(node, "axis"), len(dims))
    if len(scale) == 1 and not attribute(node, "block_size"):
        shapes.agree(node, dims[axis], scale[0], f"axis {axis} of the operand and the length of the scale")
    elif len(scale) != len(dims):
        shapes.fail(node, f"the scale {shapes.show(scale)} fits neither an axis nor blocks of {shapes.show(dims)}")


def _infer_quantize(node: Node) -> Sequence[Type | None]:
    _check_scale(node)
    if shapes.is_present(node, 2):
        dtype = shapes.dtype(node, 2)
    else:
        dtype = shapes.dtype_attribute(node, "output_dtype") or _U8
    return shapes.only(shapes.of(dtype, shapes.shape(node, 0)))


def _infer_dequantize(node: Node) -> Sequence[Type | None]:
    _check_scale(node)
    dtype = shapes.dtype_attribute(node, "output_dtype") or shapes.dtype(node, 1)
    return shapes.only(shapes.of(dtype, shapes.shape(node, 0)))


def _infer_dynamic(node: Node) -> Sequence[Type | None]:
    return TensorType(_U8, shapes.shape(node, 0)), TensorType(F32, ()), TensorType(_U8, ())


def _register() -> None:
    opaque = OpClass.OPAQUE
    blocks = {"axis": 1, "block_size": 0, "output_dtype": None}
    for operator in (
        Operator(
            "QuantizeLinear",
            opaque,
            _infer_quantize,
            2,
            3,
            attributes={**blocks, "precision": None, "saturate": 1},
            work=per_element(4),
        ),
        Operator("DequantizeLinear", opaque, _infer_dequantize, 2, 3, attributes=blocks, work=per_element(2)),
        Operator("DynamicQuantizeLinear", opaque, _infer_dynamic, outputs=3, work=per_element(6)),
    ):
        register(operator)


_register()
