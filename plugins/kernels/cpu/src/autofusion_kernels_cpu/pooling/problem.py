"""A pooling as a kernel sees it, and where its windows lie, as tables: for each output position of an axis its first
valid tap and how many.

Clamping is done here, once, so that kernels never look at padding: it may not be there, it may be a zero border, and
zero is not the identity of a maximum.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.support import result, static, used_results

KINDS = {"MaxPool": "max", "AveragePool": "average", "GlobalMaxPool": "max", "GlobalAveragePool": "average"}
"""Operators, and what becomes of the elements of a window."""

_SMALL = (np.dtype(np.uint8), np.dtype(np.int8))


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis: input and output size, kernel, stride, dilation, low and high padding."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    low: int
    high: int


@functools.lru_cache(512)
def window_table(axis: Axis, include_pad: bool) -> np.ndarray:
    """[out, 3] of int64: input index of the first valid tap, number of valid taps, what an average divides by."""
    begin = np.arange(axis.out, dtype=np.int64) * axis.stride - axis.low
    first = np.maximum(-(begin // axis.dilation), 0)
    last = np.minimum(-((begin - axis.size) // axis.dilation), axis.kernel)
    count = np.maximum(last - first, 0)
    # A window may hang over the padded input when the output size is rounded up: what lies beyond is not counted.
    padded = np.minimum(-((begin - axis.size - axis.high) // axis.dilation), axis.kernel)
    start = np.where(count > 0, begin + first * axis.dilation, 0)
    return np.stack([start, count, np.maximum(padded, 0) if include_pad else count], axis=1)


@functools.lru_cache(512)
def interior(axis: Axis) -> tuple[int, int]:
    """The range of output positions whose windows lie inside the input."""
    whole = np.flatnonzero(window_table(axis, False)[:, 1] == axis.kernel)
    return (int(whole[0]), int(whole[-1]) + 1) if len(whole) else (0, 0)


def window_axes(node: Node, shape: Sequence[int], out: Sequence[int]) -> list[Axis]:
    """The spatial axes of a pooling node with the given input and output shapes."""
    spatial = len(shape) - 2
    if node.op.startswith("Global"):
        return [Axis(size, 1, size, 1, 1, 0, 0) for size in shape[2:]]
    kernel = [int(k) for k in node.attrs["kernel_shape"]]
    strides = [int(s) for s in node.attr("strides") or [1] * spatial]
    dilations = [int(d) for d in node.attr("dilations") or [1] * spatial]
    pads = [int(p) for p in node.attr("pads") or [0] * (2 * spatial)]
    mode = node.attr("auto_pad") or "NOTSET"
    axes = []
    for i in range(spatial):
        low, high = pads[i], pads[i + spatial]
        if mode == "VALID":
            low = high = 0
        elif mode.startswith("SAME"):
            extent = (kernel[i] - 1) * dilations[i] + 1
            total = max((out[i + 2] - 1) * strides[i] + extent - shape[i + 2], 0)
            low = total // 2 if mode == "SAME_UPPER" else total - total // 2
            high = total - low
        axes.append(Axis(shape[i + 2], out[i + 2], kernel[i], strides[i], dilations[i], low, high))
    return axes


@dataclass(frozen=True, slots=True, eq=False)
class Pooling:
    """A reduction of `kind` over windows along 1 to 3 spatial `axes`. With `include_pad`, averages count padding."""

    node: Node
    kind: str
    x: TensorType
    y: TensorType
    axes: tuple[Axis, ...]
    include_pad: bool

    @property
    def full_axes(self) -> tuple[Axis, ...]:
        """Depth, height and width; missing ones have size 1 and come first."""
        return (Axis(1, 1, 1, 1, 1, 0, 0),) * (3 - len(self.axes)) + self.axes


def pooling_of(node: Node) -> Pooling | Refusal:
    """The pooling in a node, or why these kernels do not run it."""
    x, y = static(node, 0), result(node)
    if x is None or y is None:
        return Refusal("its shapes are not static")
    if x.dtype != np.float32 and (KINDS[node.op] != "max" or x.dtype not in _SMALL):
        return Refusal(f"it pools {x.dtype}, only float32, and maxima of 8-bit integers, are supported")
    rank = len(x.static_shape)
    if not 3 <= rank <= 5:
        return Refusal(f"it has {rank - 2} spatial axes, only 1 to 3 are supported")
    if used_results(node) > 1:
        return Refusal("its result 'Indices' is used")
    axes = tuple(window_axes(node, x.static_shape, y.static_shape))
    return Pooling(node, KINDS[node.op], x, y, axes, bool(node.attr("count_include_pad", 0)))
