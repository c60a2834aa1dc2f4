"""Pooling, one window tap at a time, and its inverse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.operators.shapes import window_dim
from autofusion_kernels_reference.convolution import per_axis, taps, window_pads
from autofusion_kernels_reference.support import Inputs, OpFunction, lowest, optional, wanted, wide


@dataclass(frozen=True, slots=True)
class _Windows:
    """Where the windows of a pooling node lie; ``low`` counts the padding before the first element."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    low: list[int]
    high: list[int]
    out: list[int]

    @classmethod
    def of(cls, node: Node, size: tuple[int, ...]) -> _Windows:
        rank = len(size)
        kernel = [int(k) for k in node.attrs["kernel_shape"]]
        strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
        low, high = window_pads(node, size, kernel, strides, dilations)
        auto, ceil = node.attr("auto_pad", "NOTSET"), bool(node.attr("ceil_mode", 0))
        axes = zip(size, kernel, strides, zip(low, high, strict=True), dilations, strict=True)
        out = [max(0, int(window_dim(*axis, auto, ceil) or 0)) for axis in axes]
        return cls(kernel, strides, dilations, low, high, out)

    def positions(self, tap: tuple[int, ...]) -> list[np.ndarray]:
        """For each axis, the input coordinate that ``tap`` sees from each window (it may lie outside)."""
        return [
            np.arange(o) * s - a + t * d
            for o, s, a, t, d in zip(self.out, self.strides, self.low, tap, self.dilations, strict=True)
        ]

    def view(self, x: np.ndarray, tap: tuple[int, ...], fill: Any) -> tuple[np.ndarray, np.ndarray]:
        """What ``tap`` sees from each window, ``fill`` outside the input; and where it is inside."""
        positions = self.positions(tap)
        index: list[Any] = []
        inside = np.ones((), bool)
        for axis, (p, n) in enumerate(zip(positions, x.shape[2:], strict=True)):
            shape = [-1 if a == axis else 1 for a in range(len(positions))]
            inside = inside & ((p >= 0) & (p < n)).reshape(shape)
            index.append(np.clip(p, 0, max(n - 1, 0)).reshape(shape))
        return np.where(inside, x[(slice(None), slice(None), *index)], fill), inside


def _average_pool(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0]
    windows = _Windows.of(node, x.shape[2:])
    total = np.zeros((*x.shape[:2], *windows.out))
    count = np.zeros(windows.out)
    y = wide(x)
    for tap in taps(windows.kernel):
        seen, inside = windows.view(y, tap, 0)
        total += seen
        count += _inside_padding(windows, tap, x.shape[2:]) if node.attr("count_include_pad", 0) else inside
    return [(total / count).astype(x.dtype)]


def _inside_padding(windows: _Windows, tap: tuple[int, ...], size: tuple[int, ...]) -> np.ndarray:
    """Where a tap lies inside the padded input: ceil_mode windows may reach beyond even that."""
    inside = np.ones((), bool)
    for axis, p in enumerate(windows.positions(tap)):
        ok = (p >= -windows.low[axis]) & (p < size[axis] + windows.high[axis])
        inside = inside & ok.reshape([-1 if a == axis else 1 for a in range(len(size))])
    return inside


def _max_pool(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0]
    size = x.shape[2:]
    windows = _Windows.of(node, size)
    y = wide(x)
    best = np.full((*x.shape[:2], *windows.out), lowest(y.dtype), y.dtype)
    where = np.full(best.shape, -1, np.int64)
    steps = _strides_of(size, column_major=bool(node.attr("storage_order", 0)))
    for tap in taps(windows.kernel):
        seen, inside = windows.view(y, tap, lowest(y.dtype))
        flat = np.zeros(windows.out, np.int64)
        for axis, p in enumerate(windows.positions(tap)):
            flat = flat + p.reshape([-1 if a == axis else 1 for a in range(len(size))]) * steps[axis]
        # The first of equal maxima counts; a NaN, once seen, stays.
        better = inside & ((seen > best) | (where < 0) | (np.isnan(seen) & ~np.isnan(best)))
        best = np.where(better, seen, best)
        where = np.where(better, flat, where)
    if not wanted(node, 1):
        return [best.astype(x.dtype)]
    planes = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(size)) * math.prod(size)
    return [best.astype(x.dtype), where + planes]


def _strides_of(size: tuple[int, ...], column_major: bool) -> list[int]:
    order = range(len(size)) if column_major else reversed(range(len(size)))
    steps, step = [0] * len(size), 1
    for axis in order:
        steps[axis] = step
        step *= size[axis]
    return steps


def _lp_pool(node: Node, inputs: Inputs) -> list[Any]:
    x, p = inputs[0], node.attr("p", 2)
    windows = _Windows.of(node, x.shape[2:])
    total = np.zeros((*x.shape[:2], *windows.out))
    y = np.abs(wide(x)) ** p
    for tap in taps(windows.kernel):
        total += windows.view(y, tap, 0)[0]
    return [(total ** (1 / p)).astype(x.dtype)]


def _global(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0]
    y, axes = wide(x), tuple(range(2, x.ndim))
    if node.op == "GlobalMaxPool":
        y = y.max(axes, keepdims=True)
    elif node.op == "GlobalAveragePool":
        y = y.mean(axes, keepdims=True)
    else:
        p = node.attr("p", 2)
        y = (np.abs(y) ** p).sum(axes, keepdims=True) ** (1 / p)
    return [y.astype(x.dtype)]


def _max_unpool(node: Node, inputs: Inputs) -> list[Any]:
    x, indices, given = inputs[0], inputs[1], optional(inputs, 2)
    rank = x.ndim - 2
    kernel, strides = node.attrs["kernel_shape"], per_axis(node, "strides", rank)
    pads = [int(p) for p in node.attr("pads") or [0] * 2 * rank]
    natural = [
        (n - 1) * s + k - pads[i] - pads[i + rank]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    flat = np.zeros(math.prod(x.shape[:2]) * math.prod(natural), x.dtype)
    flat[indices.ravel()] = x.ravel()
    y = flat.reshape(*x.shape[:2], *natural)
    if given is None:
        return [y]
    # The indices refer to the natural size; a larger output shape keeps the pooled tensor in its leading corner.
    out = np.zeros([int(d) for d in given], x.dtype)
    out[tuple(slice(0, n) for n in y.shape)] = y
    return [out]


OPS: dict[str, OpFunction] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global,
    "GlobalLpPool": _global,
    "GlobalMaxPool": _global,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
