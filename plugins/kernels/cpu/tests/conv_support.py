"""Convolutions by their definition, in float64, and nodes to test with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np


def conv(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    group: int = 1,
) -> np.ndarray:
    """The sum over taps of shifted inputs times weights, any number of spatial axes."""
    rank = x.ndim - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((pads[i], pads[i + rank]) for i in range(rank))])
    kernel = w.shape[2:]
    out = [(padded.shape[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(rank)]
    n, filters, per_group = x.shape[0], w.shape[0], w.shape[1]
    result = np.zeros((n, filters, *out))
    for tap in itertools.product(*map(range, kernel)):
        window = padded[
            (
                slice(None),
                slice(None),
                *(
                    slice(t * d, t * d + (o - 1) * s + 1, s)
                    for t, d, o, s in zip(tap, dilations, out, strides, strict=True)
                ),
            )
        ]
        for g in range(group):
            own = slice(g * filters // group, (g + 1) * filters // group)
            seen = window[:, g * per_group : (g + 1) * per_group]
            result[:, own] += np.einsum("oc,nc...->no...", w[(own, slice(None), *tap)].astype(np.float64), seen)
    if b is not None:
        result += b.reshape(1, -1, *(1,) * rank)
    return result


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    group: int = 1,
) -> np.ndarray:
    """Every input element spreads its weights over the output."""
    rank = x.ndim - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads, extra = pads or (0,) * (2 * rank), output_padding or (0,) * rank
    kernel = w.shape[2:]
    full = [(x.shape[i + 2] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + extra[i] for i in range(rank)]
    per_group, channels = w.shape[1], x.shape[1] // group
    result = np.zeros((x.shape[0], per_group * group, *full))
    for tap in itertools.product(*map(range, kernel)):
        place = tuple(
            slice(t * d, t * d + (size - 1) * s + 1, s)
            for t, d, size, s in zip(tap, dilations, x.shape[2:], strides, strict=True)
        )
        for g in range(group):
            seen = x[:, g * channels : (g + 1) * channels].astype(np.float64)
            own = slice(g * per_group, (g + 1) * per_group)
            weights = w[(slice(g * channels, (g + 1) * channels), slice(None), *tap)].astype(np.float64)
            result[(slice(None), own, *place)] += np.einsum("co,nc...->no...", weights, seen)
    crop = tuple(slice(pads[i], full[i] - pads[i + rank]) for i in range(rank))
    result = result[(slice(None), slice(None), *crop)]
    if b is not None:
        result = result + b.reshape(1, -1, *(1,) * rank)
    return result


def operands(rng: np.random.Generator, shape: Sequence[int], weights: Sequence[int], filters: int) -> list[np.ndarray]:
    """Input, weights scaled so that results are of size one, and bias."""
    x = rng.standard_normal(shape).astype(np.float32)
    w = rng.standard_normal(weights) / np.sqrt(max(np.prod(weights[1:]), 1))
    return [x, w.astype(np.float32), rng.standard_normal(filters).astype(np.float32)]


TOLERANCE: dict[str, Any] = {"rtol": 1e-5, "atol": 2e-5}
"""Sums of up to a few thousand terms of size one in float32."""
