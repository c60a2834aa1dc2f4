"""What a movement operator is to this family: the layouts it can have, and the moves that it makes between views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.types import TensorType
from autofusion.kernels import PLAIN, Buffer, BufferKind, Layout, TensorView, dense_strides
from autofusion_kernels_cpu.movement.box import Box


@dataclass(frozen=True, slots=True)
class Move:
    """A box between two places: a view, or an array of the kernel's own as source."""

    source: TensorView | np.ndarray
    result: TensorView
    box: Box


Views = Sequence[TensorView | None]
Stages = list[list[Move]]
"""Moves of one stage do not depend on each other; those of a later stage may read what earlier ones wrote."""


@dataclass(frozen=True, slots=True)
class Movement:
    """`moves(operand views, result views)` raises Unsupported if it cannot work on their layouts.

    `moved` are the operands whose layout matters; every other one is plain. `layouts` has the pairs (of those
    operands, of the results) to try, with the block for any number but zero.
    """

    kernel: str
    moved: tuple[int, ...]
    moves: Callable[[Views, Sequence[TensorView]], Stages]
    layouts: tuple[tuple[int, int], ...] = ((0, 0), (1, 1))


def nominal_view(type_: TensorType, layout: Layout) -> TensorView:
    """A view of a tensor of its own without borders, to ask what moves would look like."""
    shape = type_.static_shape
    if layout == PLAIN:
        strides = dense_strides(shape)
    else:
        strides = dense_strides((shape[0], -(-shape[1] // layout.block), *shape[2:], layout.block))[:-1]
    return TensorView(type_, layout, strides, Buffer(BufferKind.ARENA, 0))
