"""A convolution with what is fused to it, as the kernels see it: geometry, constant weights and bias, epilogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.kernels import CONV, Layout, Operand, Refusal
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind, epilogue_of
from autofusion_kernels_cpu.codegen.region import body_of
from autofusion_kernels_cpu.conv.geometry import AXES, Geometry, geometry_of, resized


@dataclass(frozen=True, slots=True, eq=False)
class ConvProblem:
    """`operand` numbers the bound node's operand that the convolution reads."""

    node: Node
    anchor: Node
    geometry: Geometry
    operand: int
    weights: np.ndarray
    bias: np.ndarray | None
    epilogue: Epilogue
    wanted: dict[tuple[object, ...], tuple[Operand | None, ...]] = field(default_factory=dict)
    """What `operands` has said, shared by the problems of all sizes."""

    def resized(self) -> ConvProblem:
        """The problem with the sizes that the node has now."""
        geometry = resized(self.geometry, self.anchor)
        return ConvProblem(
            self.node, self.anchor, geometry, self.operand, self.weights, self.bias, self.epilogue, self.wanted
        )

    @property
    def reads_input_twice(self) -> bool:
        """True if the epilogue reads what the convolution reads."""
        return any(leaf.operand == self.operand for leaf in self.epilogue.leaves)

    def moved_bytes(self, source: Layout, result: Layout) -> int:
        """Bytes of the operands and the result, in these layouts."""
        return (
            _stored_bytes(self.anchor.inputs[0], source)
            + _stored_bytes(self.anchor.output, result)
            + sum(_stored_bytes(leaf.value, result) for leaf in self.epilogue.leaves)
        )

    @property
    def result_operands(self) -> list[int]:
        """Which operands the epilogue wants as the result lies: those with more than one element."""
        leaves = zip(self.epilogue.leaves, self.epilogue.kinds, strict=True)
        return [
            leaf.operand
            for leaf, kind in leaves
            if leaf.operand is not None and leaf.constant is None and kind is not OperandKind.SCALAR
        ]

    def operands(self, layout: Layout, border: tuple[int, ...], result: Layout) -> tuple[Operand | None, ...]:
        """What an offer wants of each operand: the input in `layout` with `border`, tensors of the epilogue as the
        result.
        """
        key = (layout.block, border, result.block)
        if key in self.wanted:
            return self.wanted[key]
        wanted = {i: Operand(result) for i in self.result_operands}
        wanted[self.operand] = Operand(layout, border)
        made = tuple(None if v is None else wanted.get(i, Operand()) for i, v in enumerate(self.node.inputs))
        self.wanted[key] = made
        return made


def conv_of(node: Node) -> ConvProblem | Refusal:
    """The convolution in a Conv, a ConvTranspose or a fused node of kind `conv`, or why these kernels do not run it."""
    nodes, operands, results = body_of(node)
    anchor = CONV.anchor(node)
    if isinstance(anchor, Refusal):
        return anchor
    if nodes[0] is not anchor:
        return Refusal("something comes before the convolution")
    if len(results) != 1:
        return Refusal(f"it has {len(results)} results, only one can be stored")
    x, w = anchor.inputs[0], anchor.inputs[1]
    b = anchor.operand(2)
    assert x is not None and w is not None
    if x.dtype != np.float32:
        return Refusal(f"its operand is {x.dtype}, only float32 is supported")
    if not 3 <= len(x.tensor.static_shape) <= 2 + AXES:
        return Refusal(f"it has {len(x.tensor.static_shape) - 2} spatial axes, only 1 to {AXES} are supported")
    if x not in operands or x.const is not None:
        return Refusal("its operand is not an operand of the fused node")
    data = [None if v is None else _constant(node, operands, v) for v in (w, b)]
    if data[0] is None or (b is not None and data[1] is None):
        return Refusal("its weights or its bias are not constant")
    if 0 in x.tensor.static_shape or 0 in anchor.output.tensor.static_shape:
        return Refusal("it computes nothing")
    result = results[0]
    uses = [each for each in nodes if anchor.output in each.inputs]
    if result is not anchor.output and not uses:
        return Refusal("its result is not used")
    epilogue = epilogue_of(node, list(nodes[1:]), operands, anchor.output, result)
    if isinstance(epilogue, Refusal):
        return epilogue
    for leaf, kind in zip(epilogue.leaves, epilogue.kinds, strict=True):
        short = len(leaf.value.tensor.static_shape) < len(result.tensor.static_shape)
        if leaf.constant is None and kind is not OperandKind.SCALAR and short:
            # Blocked layouts put the channels on axis 1: such a tensor cannot have one that fits.
            return Refusal(
                f"operand '{leaf.value.name}' of its epilogue has fewer axes than the result and is not constant"
            )
    return ConvProblem(node, anchor, geometry_of(anchor), operands[x], data[0], data[1], epilogue)


def _constant(node: Node, operands: Mapping[Value, int], value: Value) -> np.ndarray | None:
    """The data of a value of the body that is constant inside or outside of it."""
    if value.const is not None:
        return value.const
    index = operands.get(value)
    outer = None if index is None else node.inputs[index]
    return None if outer is None else outer.const


def _stored_bytes(value: Value | None, layout: Layout) -> int:
    """Bytes of a tensor, whole channel blocks included."""
    if value is None:
        return 0
    type_ = value.tensor
    shape, block = type_.static_shape, layout.block
    if not block or len(shape) < 3 or shape[1] % block == 0:
        return type_.nbytes
    return type_.nbytes // max(shape[1], 1) * -(-shape[1] // block) * block
