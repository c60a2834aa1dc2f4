"""A convolution of small integers as a kernel sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.kernels import INTEGER_CONV, Layout, Operand, Refusal
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind, kind_of
from autofusion_kernels_cpu.codegen.region import body_of, make_region, operand_constant
from autofusion_kernels_cpu.conv.geometry import AXES, Geometry, geometry_of

_LARGEST = 1 << 28
_SMALL = (np.dtype(np.uint8), np.dtype(np.int8))


@dataclass(frozen=True, slots=True, eq=False)
class IntegerConv:
    """``operand`` numbers the bound node's operand that the convolution reads, of ``dtype``.

    ``zero`` is its zero point, or None for one that is computed: operand ``zero_operand``.
    """

    node: Node
    geometry: Geometry
    operand: int
    dtype: np.dtype
    zero: int | None
    zero_operand: int | None
    source: np.ndarray
    weights_zero: np.ndarray
    epilogue: Epilogue

    @property
    def weights(self) -> np.ndarray:
        """int16 [filters, channels of a group, taps], less their zero points."""
        zero = self.weights_zero.reshape(-1, 1, 1)
        flat = self.source.reshape(*self.source.shape[:2], -1)
        return flat.astype(np.int16) - zero.astype(np.int16)

    @property
    def reads_input_twice(self) -> bool:
        """True if the epilogue reads what the convolution reads."""
        return any(leaf.operand == self.operand for leaf in self.epilogue.leaves)

    @property
    def fits_bytes(self) -> bool:
        """True if the weights less their zero points are signed bytes."""
        ends = np.iinfo(np.int8)
        return bool(self.weights.min(initial=0) >= ends.min and self.weights.max(initial=0) <= ends.max)

    def operands(self, layout: Layout, source: Operand) -> tuple[Operand | None, ...]:
        """What an offer wants of each operand: tensors in ``layout``, the input as ``source``."""
        wanted = {
            leaf.operand: Operand(layout)
            for leaf, kind in zip(self.epilogue.leaves, self.epilogue.kinds, strict=True)
            if leaf.operand is not None and leaf.constant is None and kind is not OperandKind.SCALAR
        }
        wanted[self.operand] = source
        return tuple(None if v is None else wanted.get(i, Operand()) for i, v in enumerate(self.node.inputs))


def integer_conv_of(node: Node) -> IntegerConv | Refusal:
    """The convolution in a ConvInteger or a fused node around one, or why these kernels do not run it."""
    nodes, operands, results = body_of(node)
    anchor = INTEGER_CONV.anchor(node)
    if isinstance(anchor, Refusal):
        return anchor
    x, w = anchor.inputs[:2]
    assert x is not None and w is not None
    for value in (x, w):
        if value.tensor.dtype not in _SMALL:
            return Refusal(f"it multiplies {value.tensor.dtype}, only 8-bit integers are supported")
    shape, result_shape = x.tensor.static_shape, anchor.output.tensor.static_shape
    if not 3 <= len(shape) <= 2 + AXES:
        return Refusal(f"it has {len(shape) - 2} spatial axes, only 1 to {AXES} are supported")
    if x not in operands or x.const is not None:
        return Refusal("its operand is not an operand of the fused node")
    if x.tensor.numel // max(shape[0], 1) >= _LARGEST:
        return Refusal("its image is too large for offsets of 32 bits")
    if 0 in shape or 0 in result_shape:
        return Refusal("it computes nothing")
    if len(results) != 1 or results[0].tensor.static_shape != result_shape:
        return Refusal("it has not one result as large as the convolution's")
    weights = _constant(node, operands, w)
    given, w_given = anchor.operand(2), anchor.operand(3)
    x_zero = _zero(node, operands, given, x.tensor.dtype)
    w_zero = _zero(node, operands, w_given, w.tensor.dtype)
    if weights is None or w_zero is None:
        return Refusal("its weights or their zero points are not constant")
    if given is not None and (given.tensor.numel != 1 or given.tensor.dtype != x.tensor.dtype):
        return Refusal(f"its operand's zero point is {given.type}, expected one of {x.tensor.dtype}")
    if x_zero is None and given not in operands:
        return Refusal("its operand's zero point is computed inside the node")
    region = make_region(node, [n for n in nodes if n is not anchor], operands, results, given=[anchor.output])
    if isinstance(region, Refusal):
        return region
    kinds = []
    for leaf in region.leaves:
        kind = kind_of(leaf.shape, result_shape)
        if kind is None:
            return Refusal(f"operand '{leaf.value.name}' is neither one for each channel nor for each element")
        short = len(leaf.value.tensor.static_shape) < len(result_shape)
        if leaf.constant is None and kind is not OperandKind.SCALAR and short:
            return Refusal(f"operand '{leaf.value.name}' has fewer axes than the result and is not constant")
        kinds.append(kind)
    epilogue = Epilogue(region, tuple(kinds), anchor.output)
    zero = None if x_zero is None else int(x_zero.reshape(()))
    zero_operand = None if given is None or x_zero is not None else operands[given]
    reads = (operands[x], x.tensor.dtype, zero, zero_operand)
    return IntegerConv(node, geometry_of(anchor), *reads, weights, w_zero, epilogue)


def _constant(node: Node, operands: dict[Value, int], value: Value) -> np.ndarray | None:
    return value.const if value not in operands else operand_constant(node, operands[value])


def _zero(node: Node, operands: dict[Value, int], value: Value | None, dtype: np.dtype) -> np.ndarray | None:
    return np.zeros((), dtype) if value is None else _constant(node, operands, value)
