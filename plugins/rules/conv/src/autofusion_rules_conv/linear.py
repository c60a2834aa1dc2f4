"""Layers that are linear in their input with constant weights, and what it takes to change those weights.

One description serves every fold: a BatchNormalization, a Mul, an Add, in whatever spelling, are ``scale`` and
``shift`` for each output channel. All arithmetic is done in double precision and rounded once. Results smaller than the
smallest normal number become zero: denormal weights make kernels many times slower and no result better.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import (
    Builder,
    Operand,
    Refusal,
    axis_vector,
    const,
    constant_hint,
    either,
    is_float,
    not_constant,
    op,
    spread,
)

CONVS = ("Conv", "ConvTranspose")
LINEAR = (*CONVS, "Gemm", "MatMul")
_PIECE = 1 << 16
"""Elements that are looked at together: temporary arrays of all weights cost more than the arithmetic."""


def layer() -> Operand:
    """A layer with a bias operand of its own."""
    return op((*CONVS, "Gemm"), name="layer", open_inputs=True)


def biased_layer() -> Operand:
    """Any linear layer; a MatMul may be followed by the Add of its bias, which is then called ``bias``."""
    return either(
        op(LINEAR, name="layer", open_inputs=True),
        op("Add", op("MatMul", name="layer", open_inputs=True), const("bias")),
    )


@dataclass(frozen=True, slots=True)
class Layer:
    """A linear layer: its weight, the number of output channels, and where they lie in the result."""

    node: Node
    weight: Value
    bias: Value | None
    channels: int
    rank: int
    axis: int

    @property
    def dtype(self) -> np.dtype:
        """Element type of the weight, and so of the result."""
        return self.weight.tensor.dtype

    @property
    def bias_vector(self) -> np.ndarray | None:
        """The bias for each channel in double precision (zeros without one); None if it is not along the channel."""
        if self.bias is None:
            return np.zeros(self.channels)
        if self.bias.const is None:
            return None
        beta = float(attribute(self.node, "beta")) if self.node.op == "Gemm" else 1.0
        # The bias of a convolution is a vector whatever the rank; the others broadcast it.
        rank, axis = (1, 0) if self.node.op in CONVS else (self.rank, self.axis)
        vector = axis_vector(self.bias.const, rank, axis, self.channels)
        return None if vector is None else vector * beta


def describe(node: Node, added: Value | None = None) -> Layer | Refusal:
    """Read ``node`` as a linear layer with constant weights, or say why it is none. ``added``: the bias of a MatMul."""
    weight = node.operand(1)
    if weight is None or weight.const is None:
        reason = not_constant(weight) if weight else "is absent"
        return Refusal(f"the weight {reason}", weight, constant_hint(weight) if weight else "")
    if not is_float(weight) or weight.dtype != node.output.dtype:
        return Refusal(f"the weight '{weight.name}' is not of a floating-point type", weight)
    bias = node.operand(2) if node.op != "MatMul" else added
    if bias is not None and bias.const is None:
        return Refusal(f"the bias {not_constant(bias)}", bias, constant_hint(bias))
    shape = weight.const.shape
    if node.op in CONVS:
        group = int(attribute(node, "group")) if node.op == "ConvTranspose" else 1
        channels = shape[0] if node.op == "Conv" else shape[1] * group
        return Layer(node, weight, bias, channels, len(shape), 1)
    if len(shape) != 2:
        return Refusal(f"the weight '{weight.name}' is not a matrix", weight)
    result = node.output.shape
    if result is None or not result:
        return Refusal(f"the rank of '{node.output.name}' is not known", node.output)
    transposed = node.op == "Gemm" and attribute(node, "transB")
    return Layer(node, weight, bias, shape[0 if transposed else 1], len(result), len(result) - 1)


Factor = tuple[tuple[int, ...], np.ndarray]
"""A shape to view the weight in, and an array of as many axes to multiply it with."""


def output_factor(layer: Layer, scale: np.ndarray) -> Factor:
    """``scale``, one number for each output channel, so that it multiplies the weight."""
    node, shape = layer.node, _shape(layer)
    if node.op == "ConvTranspose":  # [inputs, outputs of a group, ...]
        group = int(attribute(node, "group"))
        return _by_group(shape, group), scale.reshape(group, 1, shape[1], *(1,) * (len(shape) - 2))
    rows = node.op == "Conv" or (node.op == "Gemm" and bool(attribute(node, "transB")))
    return shape, spread(scale, len(shape), 0) if rows else scale.reshape(1, -1)


def input_factor(layer: Layer, scale: np.ndarray) -> Factor:
    """``scale``, one number for each input channel, so that it multiplies the weight."""
    node, shape = layer.node, _shape(layer)
    if node.op == "Conv":  # [outputs, inputs of a group, ...]
        group = int(attribute(node, "group"))
        return _by_group(shape, group), scale.reshape(group, 1, shape[1], *(1,) * (len(shape) - 2))
    columns = node.op == "Gemm" and bool(attribute(node, "transB"))
    return shape, scale.reshape(1, -1) if columns else spread(scale, len(shape), 0)


def _by_group(shape: tuple[int, ...], group: int) -> tuple[int, ...]:
    return (group, shape[0] // group, *shape[1:])


def _shape(layer: Layer) -> tuple[int, ...]:
    assert layer.weight.const is not None
    return layer.weight.const.shape


def scaled(layer: Layer, factor: Factor) -> np.ndarray | Refusal:
    """The weight times ``factor``, in double precision, rounded once, without denormals; refused if it is not finite
    then.
    """
    view, numbers = factor
    weight = layer.weight.const
    assert weight is not None
    product = np.empty(view, weight.dtype)
    np.multiply(weight.reshape(view), numbers, out=product, casting="same_kind")
    if settle(product):
        return product.reshape(weight.shape)
    if not np.isfinite(weight).all():
        return Refusal(f"the weight '{layer.weight.name}' is not finite", layer.weight)
    return Refusal(f"the folded weight of {layer.node.label} would not be finite", layer.weight)


def fitted(vector: np.ndarray, dtype: np.dtype, what: str, culprit: Node | Value) -> np.ndarray | Refusal:
    """``vector`` in ``dtype``, without denormals; refused if it is not finite then."""
    data = vector.astype(dtype)
    return data if settle(data) else Refusal(f"{what} would not be finite", culprit)


def settle(data: np.ndarray) -> bool:
    """Set the denormal elements of contiguous ``data`` to zero, in place; False if an element is not finite."""
    flat, largest, smallest = data.reshape(-1), _limit(data.dtype), _smallest(data.dtype)
    magnitudes = np.empty(min(_PIECE, flat.size), flat.dtype)
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        magnitude = np.abs(piece, out=magnitudes[: piece.size])
        if not magnitude.max() <= largest:  # NaN is the largest of all
            return False
        if magnitude.min() < smallest:
            piece[magnitude < smallest] = 0
    return True


def rebuild(
    layer: Layer, weight: np.ndarray | None, bias: np.ndarray | None, builder: Builder, x: Value | None = None
) -> Value:
    """The layer with another weight, bias (one number for each output channel, of its element type) or input; None: as
    it was.
    """
    node = layer.node
    x = node.inputs[0] if x is None else x
    w = layer.weight if weight is None else builder.constant(weight, name=layer.weight.name)
    if bias is None:
        b = layer.bias
    elif layer.bias is None and not bias.any():
        b = None
    else:
        b = builder.constant(bias, name=layer.bias.name if layer.bias else f"{node.name}.bias")
    if node.op == "MatMul":
        product = builder.op("MatMul", x, w, name=node.name)
        return product if b is None else builder.op("Add", product, b, name=node.name)
    attrs = dict(node.attrs)
    if node.op == "Gemm" and bias is not None:
        attrs["beta"] = 1.0
    operands = [x, w] if b is None else [x, w, b]
    return builder.node(node.op, operands, attrs, name=node.name).output


@cache
def _info(dtype: np.dtype) -> Any:
    if dtype.name == "bfloat16":
        import ml_dtypes

        return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return np.finfo(dtype)


@cache
def _limit(dtype: np.dtype) -> float:
    return float(_info(dtype).max)


@cache
def _smallest(dtype: np.dtype) -> float:
    return float(_info(dtype).smallest_normal)
