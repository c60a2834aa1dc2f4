"""A Resize as a kernel sees it: types, and for each axis the input positions that are mixed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.resize.coordinates import Taps, axis_taps
from autofusion_kernels_cpu.support import result, static
from autofusion_kernels_cpu.unsupported import Unsupported

MAX_TAPS = 16
"""Input pixels mixed into an output pixel; beyond, registers run out and code grows."""


@dataclass(frozen=True, slots=True, eq=False)
class Resizing:
    """`taps` of every axis; `changed` are the axes whose positions are not the input's. Without `weighted`, pixels are
    copied.
    """

    node: Node
    x: TensorType
    y: TensorType
    taps: tuple[Taps, ...]
    changed: tuple[int, ...]
    weighted: bool

    @property
    def mixed(self) -> int:
        """Input pixels of an output pixel."""
        return math.prod(taps.count for taps in self.taps)


def resizing_of(node: Node) -> Resizing | Refusal:
    """The resizing in a node, or why these kernels do not run it."""
    x, y = static(node, 0), result(node)
    if x is None or y is None:
        return Refusal("its shapes are not static")
    if not x.static_shape:
        return Refusal("its operand is a scalar")
    nearest = (node.attr("mode") or "nearest") == "nearest"
    if x.dtype != np.float32 and not (nearest and x.dtype.itemsize == 4):
        return Refusal(f"it resizes {x.dtype}, only float32 (or four-byte elements by mode 'nearest') is supported")
    try:
        taps = tuple(axis_taps(node, x.static_shape, y.static_shape))
    except Unsupported as no:
        return no.refusal
    changed = tuple(i for i, (t, s) in enumerate(zip(taps, x.static_shape, strict=True)) if not _is_identity(t, s))
    if any(axis < len(taps) - 3 for axis in changed):
        return Refusal("it resizes more than the last three axes")
    problem = Resizing(node, x, y, taps, changed, not nearest)
    if problem.mixed > MAX_TAPS:
        return Refusal(f"it mixes {problem.mixed} pixels into one, at most {MAX_TAPS} are supported")
    return problem


def _is_identity(taps: Taps, size: int) -> bool:
    return taps.count == 1 and np.array_equal(taps.index[:, 0], np.arange(size))
