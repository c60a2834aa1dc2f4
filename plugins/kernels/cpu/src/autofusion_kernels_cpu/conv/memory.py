"""Where the tensors of a convolution lie: strides in a normal form, and the operands of its epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from autofusion.kernels import BindContext, TensorView
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.weights import padded_vector
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.packed import packed


@dataclass(frozen=True, slots=True)
class Strided:
    """Strides in floats of a view in the normal form: image, channel (block), depth, height, width."""

    image: int
    block: int
    depth: int
    height: int
    width: int

    def offset(self, image: int, position: tuple[int, int, int]) -> int:
        """Floats from the first element to a position of an image."""
        d, h, w = position
        return image * self.image + d * self.depth + h * self.height + w * self.width


FIXED = Strided(0, 0, 0, 0, 0)
"""One element for all of the result."""


def strided(view: TensorView, geometry: Geometry) -> Strided:
    """The strides of a blocked or plain view of rank 3 to 5."""
    return Strided(view.strides[0], view.strides[1], *geometry.normal_form(view.strides[2:], 0))


@dataclass(frozen=True, slots=True, eq=False)
class BoundOperand:
    """An operand of an epilogue in memory: where, and its strides (0 where it does not vary)."""

    source: Source
    strides: Strided


def bind_epilogue(
    context: BindContext,
    epilogue: Epilogue,
    inputs: Sequence[TensorView | None],
    geometry: Geometry,
    blocks: int,
    lanes: int,
) -> list[BoundOperand]:
    """Memory of every leaf; constants are laid out once for the session."""
    bound = []
    for leaf, kind in zip(epilogue.leaves, epilogue.kinds, strict=True):
        if leaf.constant is not None:
            how = (leaf.shape, kind, blocks, lanes, geometry.rank, geometry.leading)
            make = partial(_constant_operand, leaf.constant, leaf.shape, kind, geometry, blocks, lanes)
            bound.append(packed(context.cache, "conv.operand", leaf.constant, how, make))
            continue
        assert leaf.operand is not None
        view = inputs[leaf.operand]
        assert view is not None
        if kind is OperandKind.SCALAR:
            bound.append(BoundOperand(view, FIXED))
        elif kind is OperandKind.CHANNEL:
            image = view.strides[0] if view.shape[0] > 1 else 0
            bound.append(BoundOperand(view, Strided(image, view.strides[1], 0, 0, 0)))
        else:
            bound.append(BoundOperand(view, strided(view, geometry)))
    return bound


def _constant_operand(
    data: np.ndarray, shape: tuple[int, ...], kind: OperandKind, geometry: Geometry, blocks: int, lanes: int
) -> BoundOperand:
    full = data.reshape((1,) * (2 + geometry.rank - len(shape)) + tuple(shape))
    if kind is OperandKind.SCALAR:
        return BoundOperand(np.ascontiguousarray(full, np.float32).reshape(1), FIXED)
    images, channels = full.shape[:2]
    spatial = full.shape[2:]
    pixels = int(np.prod(spatial))
    memory = padded_vector(None, images * blocks * pixels, lanes)
    grid = memory[: images * blocks * pixels * lanes].reshape(images, blocks, pixels, lanes)
    flat = full.reshape(images, channels, pixels)
    for block in range(blocks):
        own = flat[:, block * lanes : (block + 1) * lanes]
        grid[:, block, :, : own.shape[1]] = own.transpose(0, 2, 1)
    if kind is OperandKind.CHANNEL:
        return BoundOperand(memory, Strided(blocks * lanes if images > 1 else 0, lanes, 0, 0, 0))
    d, h, w = geometry.normal_form(spatial, 1)
    plane = d * h * w * lanes
    return BoundOperand(memory, Strided(blocks * plane, plane, h * w * lanes, w * lanes, lanes))
