"""Where the operands of a region lie in memory, as the loop nests want to know it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.kernels import TensorView, dense_strides
from autofusion_kernels_cpu.codegen.region import Leaf
from autofusion_kernels_cpu.native.program import Ref


def leaf_memory(
    leaf: Leaf, inputs: Sequence[TensorView | None], rank: int, block: int = 0
) -> tuple[Ref, tuple[int, ...], tuple[int, ...]]:
    """Where a leaf's data is, and the sizes and strides of its axes (in blocks: as [N, blocks, *spatial])."""
    shape = leaf.shape
    if block:
        full = (1,) * (rank - len(shape)) + shape
        shape = (full[0], -(-full[1] // block), *full[2:])
        if leaf.constant is not None:
            array = packed(np.reshape(leaf.constant, full), block)
            return Ref(array), shape, tuple(s * block for s in dense_strides(shape))
    elif leaf.constant is not None:
        return Ref(np.ascontiguousarray(leaf.constant)), shape, dense_strides(shape)
    assert leaf.operand is not None
    view = inputs[leaf.operand]
    assert view is not None
    return Ref(view), shape, view.strides + (0,) * (len(shape) - len(view.strides))


def table_memory(leaf: Leaf, inputs: Sequence[TensorView | None]) -> Ref:
    """Where a table is."""
    if leaf.constant is not None:
        return Ref(np.ascontiguousarray(leaf.constant))
    assert leaf.operand is not None
    view = inputs[leaf.operand]
    assert view is not None
    return Ref(view)


def packed(array: np.ndarray, block: int) -> np.ndarray:
    """A constant [N, C, *spatial] as [N, blocks, *spatial, block], zero past C."""
    missing = -array.shape[1] % block
    padded = np.pad(array, [(0, 0), (0, missing), *[(0, 0)] * (array.ndim - 2)])
    split = padded.reshape(array.shape[0], -1, block, *array.shape[2:])
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))
