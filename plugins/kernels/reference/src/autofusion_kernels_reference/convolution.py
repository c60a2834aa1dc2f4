"""Convolutions of any rank: a matrix product for as many kernel taps as a bounded copy of the operand has room for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.contraction import EXACT, centred, half_or_wide, magnitude
from autofusion_kernels_reference.movement import pad
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, optional, wide

_COLUMNS = 1 << 23
"""Bytes that the taps of one product may take, if there is more than one."""


def per_axis(node: Node, name: str, rank: int) -> list[int]:
    """An attribute with one integer for each spatial axis; 1 where it is absent."""
    return [int(v) for v in node.attr(name) or [1] * rank]


def taps(kernel: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every position of a kernel window."""
    return itertools.product(*(range(k) for k in kernel))


def window_pads(
    node: Node, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[int], list[int]]:
    """(low, high) pads of a convolution or pooling window, with ``auto_pad`` resolved."""
    rank = len(size)
    auto = node.attr("auto_pad", "NOTSET")
    if auto == "VALID":
        return [0] * rank, [0] * rank
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        low, high = [], []
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
            total = max(0, (math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n)
            smaller, larger = total // 2, total - total // 2
            low.append(smaller if auto == "SAME_UPPER" else larger)
            high.append(larger if auto == "SAME_UPPER" else smaller)
        return low, high
    pads = [int(p) for p in node.attr("pads") or [0] * 2 * rank]
    return pads[:rank], pads[rank:]


def tap_view(
    x: np.ndarray, tap: Sequence[int], out: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> np.ndarray:
    """What one tap sees: ``x`` shifted by the tap, one element for each output position."""
    index = [
        slice(t * d, t * d + (o - 1) * s + 1, s) if o else slice(0, 0)
        for t, o, s, d in zip(tap, out, strides, dilations, strict=True)
    ]
    return x[(..., *index)]


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: tuple[list[int], list[int]],
    groups: int,
) -> np.ndarray:
    """Cross-correlation of ``x`` [N, C, *size] with ``w`` [M, C / groups, *kernel] -> [N, M, *out], in their type."""
    n, c, *_ = x.shape
    m, per_group, *kernel = w.shape
    if c != per_group * groups or m % groups:
        raise ValueError(f"expected {per_group * groups} channels ({groups} groups of {per_group}), found {c}")
    x = pad(x, [0, 0, *pads[0]], [0, 0, *pads[1]])
    out = [
        max(0, (size - (k - 1) * d - 1) // s + 1)
        for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
    ]
    positions = math.prod(out)
    y = np.zeros((n, groups, m // groups, positions), x.dtype)
    if y.size == 0:
        return y.reshape(n, m, *out)
    weights = w.reshape(groups, m // groups, per_group, *kernel)
    room = max(1, _COLUMNS // max(1, n * c * positions * x.itemsize))
    every = list(taps(kernel))
    for chunk in (every[i : i + room] for i in range(0, len(every), room)):
        seen = [tap_view(x, tap, out, strides, dilations).reshape(n, groups, per_group, positions) for tap in chunk]
        at = [weights[(..., *tap)] for tap in chunk]
        if per_group == 1:
            for one, part in zip(at, seen, strict=True):
                y += one * part
        else:  # the taps of a chunk lie side by side along the inner axis of one product
            y += np.matmul(np.concatenate(at, 2), np.concatenate(seen, 2))
    return y.reshape(n, m, *out)


def _with_bias(y: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    return y if bias is None else y + wide(bias).reshape(-1, *[1] * (y.ndim - 2))


def conv_of(node: Node, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution that ``node``'s attributes describe, in the operands' type."""
    rank, kernel = w.ndim - 2, w.shape[2:]
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    pads = window_pads(node, x.shape[2:], kernel, strides, dilations)
    return convolve(x, w, strides, dilations, pads, node.attr("group", 1))


def _conv(node: Node, inputs: Inputs) -> list[Any]:
    x, w = inputs[0], inputs[1]
    return [_with_bias(conv_of(node, half_or_wide(x), half_or_wide(w)), optional(inputs, 2)).astype(x.dtype)]


def exact_conv(node: Node, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution of whole numbers (held in float32), exact: in float32 or float64, by the largest sum possible."""
    inner = math.prod(w.shape[1:])
    largest = magnitude(x) * magnitude(w)
    if largest * inner < EXACT:
        return conv_of(node, x, w)
    return conv_of(node, x.astype(np.float64), w.astype(np.float64))


def _conv_integer(node: Node, inputs: Inputs) -> list[Any]:
    x, w, x_zero, w_zero = (optional(inputs, i) for i in range(4))
    if w_zero is not None:
        w_zero = w_zero.reshape(-1, *[1] * (w.ndim - 1))
    return [exact_conv(node, centred(x, x_zero), centred(w, w_zero)).astype(np.int64).astype(np.int32)]


def _transpose_pads(
    node: Node, size: Sequence[int], extent: Sequence[int], strides: Sequence[int], extra: Sequence[int]
) -> tuple[list[int], list[int]]:
    """(low, high) to cut from the full result of a transposed convolution, as ``output_shape``/``auto_pad`` say."""
    rank = len(size)
    auto, shape = node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    full = [(n - 1) * s + e + x for n, s, e, x in zip(size, strides, extent, extra, strict=True)]
    if shape:
        total = [f - int(o) for f, o in zip(full, integers(shape)[-rank:], strict=True)]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        # A kernel smaller than the stride does not reach size * stride; nothing is added then.
        total = [max(0, f - n * s) for f, n, s in zip(full, size, strides, strict=True)]
    elif auto == "VALID":
        return [0] * rank, [0] * rank
    else:
        pads = [int(p) for p in node.attr("pads") or [0] * 2 * rank]
        return pads[:rank], pads[rank:]
    # The operator cuts the larger half at the start, except for SAME_UPPER; what is missing is added at the end.
    low = [max(0, t) // 2 if auto == "SAME_UPPER" else -(-max(0, t) // 2) for t in total]
    return low, [t - a for t, a in zip(total, low, strict=True)]


def _conv_transpose(node: Node, inputs: Inputs) -> list[Any]:
    x, w, bias = inputs[0], inputs[1], optional(inputs, 2)
    groups = node.attr("group", 1)
    n, c, *size = x.shape
    _, per_group, *kernel = w.shape
    rank = len(size)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    extra = [int(v) for v in node.attr("output_padding") or [0] * rank]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    low, high = _transpose_pads(node, size, extent, strides, extra)
    full = [(m - 1) * s + e + o for m, s, e, o in zip(size, strides, extent, extra, strict=True)]
    y = np.zeros((n, groups * per_group, *full), half_or_wide(x[:0]).dtype)
    source = half_or_wide(x).reshape(n, groups, c // groups, math.prod(size))
    weights = half_or_wide(w).reshape(groups, c // groups, per_group, *kernel)
    for tap in taps(kernel):
        product = np.matmul(weights[(..., *tap)].swapaxes(1, 2), source)
        tap_view(y, tap, size, strides, dilations)[...] += product.reshape(n, groups * per_group, *size)
    y = pad(y, [0, 0, *(-p for p in low)], [0, 0, *(-p for p in high)])
    return [_with_bias(y, bias).astype(x.dtype)]


OPS: dict[str, OpFunction] = {
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
}
