"""A convolution with what is fused to it, taken apart: geometry, constant weights and bias, epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.kernels import CONV, Layout, Operand, Refusal, TensorView
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind, epilogue_of
from autofusion_kernels_cpu.codegen.region import body_of
from autofusion_kernels_cpu.conv.geometry import AXES, Geometry, geometry_of
from autofusion_kernels_cpu.conv.weights import padded_vector
from autofusion_kernels_cpu.native.program import Ref


@dataclass(frozen=True, slots=True, eq=False)
class Anchored:
    """`operand` numbers the bound node's operand that the convolution reads."""

    node: Node
    anchor: Node
    geometry: Geometry
    operand: int
    weights: np.ndarray
    bias: np.ndarray | None
    epilogue: Epilogue

    def operands(self, layout: Layout, border: tuple[int, ...], result: Layout) -> tuple[Operand | None, ...]:
        """What an offer wants of each operand: the input in `layout` with `border`, tensors of the epilogue as the
        result.
        """
        wanted: dict[int, Operand] = {}
        for leaf, kind in zip(self.epilogue.leaves, self.epilogue.kinds, strict=True):
            if leaf.operand is not None and leaf.constant is None and kind is not OperandKind.SCALAR:
                wanted[leaf.operand] = Operand(result)
        wanted[self.operand] = Operand(layout, border)
        return tuple(None if v is None else wanted.get(i, Operand()) for i, v in enumerate(self.node.inputs))


def anchored(node: Node) -> Anchored | str:
    """The parts of a Conv, a ConvTranspose or a fused node of kind `conv`, or why this is none that can be run."""
    nodes, operands, results = body_of(node)
    anchor = CONV.anchor(node)
    if isinstance(anchor, Refusal):
        return anchor.reason
    if nodes[0] is not anchor:
        return "something comes before the convolution"
    if len(results) != 1:
        return f"it has {len(results)} results, only one can be stored"
    x, w = anchor.inputs[0], anchor.inputs[1]
    b = anchor.operand(2)
    assert x is not None and w is not None
    if x.dtype != np.float32:
        return f"its operand is {x.dtype}, only float32 is supported"
    if not 3 <= len(x.tensor.static_shape) <= 2 + AXES:
        return f"it has {len(x.tensor.static_shape) - 2} spatial axes, only 1 to {AXES} are supported"
    if x not in operands or x.const is not None:
        return "its operand is not an operand of the fused node"
    data = [None if v is None else _constant(node, operands, v) for v in (w, b)]
    if data[0] is None or (b is not None and data[1] is None):
        return "its weights or its bias are not constant"
    if 0 in x.tensor.static_shape or 0 in anchor.output.tensor.static_shape:
        return "it computes nothing"
    result = results[0]
    uses = [each for each in nodes if anchor.output in each.inputs]
    if result is not anchor.output and not uses:
        return "its result is not used"
    epilogue = epilogue_of(node, list(nodes[1:]), operands, anchor.output, result)
    if isinstance(epilogue, str):
        return epilogue
    for leaf, kind in zip(epilogue.leaves, epilogue.kinds, strict=True):
        short = len(leaf.value.tensor.static_shape) < len(result.tensor.static_shape)
        if leaf.constant is None and kind is not OperandKind.SCALAR and short:
            # Blocked layouts put the channels on axis 1: such a tensor cannot have one that fits.
            return f"operand '{leaf.value.name}' of its epilogue has fewer axes than the result and is not constant"
    return Anchored(node, anchor, geometry_of(anchor), operands[x], data[0], data[1], epilogue)


def _constant(node: Node, operands: Mapping[Value, int], value: Value) -> np.ndarray | None:
    """The data of a value of the body that is constant inside or outside of it."""
    if value.const is not None:
        return value.const
    index = operands.get(value)
    outer = None if index is None else node.inputs[index]
    return None if outer is None else outer.const


@dataclass(frozen=True, slots=True)
class Strided:
    """Strides in floats of a view in the normal form: image, channel (block), depth, height, width."""

    image: int
    block: int
    depth: int
    height: int
    width: int


def strided(view: TensorView) -> Strided:
    """The strides of a blocked or plain view of rank 3 to 5."""
    spatial = view.strides[2:]
    full = (0,) * (AXES - len(spatial)) + tuple(spatial)
    return Strided(view.strides[0], view.strides[1], *full)


@dataclass(frozen=True, slots=True, eq=False)
class BoundOperand:
    """An operand of an epilogue in memory: where, and its strides (0 where it does not vary)."""

    ref: Ref
    strides: Strided


def bind_epilogue(
    epilogue: Epilogue, inputs: Sequence[TensorView | None], blocks: int, lanes: int, result: Sequence[int]
) -> list[BoundOperand]:
    """Memory of every leaf. `result` is the shape of the result; constants are laid out here."""
    bound = []
    for leaf, kind in zip(epilogue.leaves, epilogue.kinds, strict=True):
        if leaf.constant is not None:
            bound.append(_constant_operand(leaf.constant, leaf.shape, kind, blocks, lanes, result))
            continue
        assert leaf.operand is not None
        view = inputs[leaf.operand]
        assert view is not None
        if kind is OperandKind.SCALAR:
            bound.append(BoundOperand(Ref(view), Strided(0, 0, 0, 0, 0)))
        elif kind is OperandKind.CHANNEL:
            image = view.strides[0] if view.shape[0] > 1 else 0
            bound.append(BoundOperand(Ref(view), Strided(image, view.strides[1], 0, 0, 0)))
        else:
            bound.append(BoundOperand(Ref(view), strided(view)))
    return bound


def _constant_operand(
    data: np.ndarray, shape: tuple[int, ...], kind: OperandKind, blocks: int, lanes: int, result: Sequence[int]
) -> BoundOperand:
    full = data.reshape((1,) * (len(result) - len(shape)) + tuple(shape))
    if kind is OperandKind.SCALAR:
        return BoundOperand(Ref(np.ascontiguousarray(full, np.float32).reshape(1)), Strided(0, 0, 0, 0, 0))
    images, channels = full.shape[:2]
    spatial = full.shape[2:]
    pixels = int(np.prod(spatial))
    packed = padded_vector(None, images * blocks * pixels, lanes)
    grid = packed[: images * blocks * pixels * lanes].reshape(images, blocks, pixels, lanes)
    flat = full.reshape(images, channels, pixels)
    for block in range(blocks):
        own = flat[:, block * lanes : (block + 1) * lanes]
        grid[:, block, :, : own.shape[1]] = own.transpose(0, 2, 1)
    if kind is OperandKind.CHANNEL:
        return BoundOperand(Ref(packed), Strided(blocks * lanes if images > 1 else 0, lanes, 0, 0, 0))
    d, h, w = (1,) * (AXES - len(spatial)) + tuple(spatial)
    plane = d * h * w * lanes
    return BoundOperand(Ref(packed), Strided(blocks * plane, plane, h * w * lanes, w * lanes, lanes))
