"""Weights of Winograd convolutions: transformed once for the session."""

from __future__ import annotations

from functools import partial

import numpy as np

from autofusion.kernels import BindContext
from autofusion_kernels_cpu.conv.weights import aligned_zeros, flush_denormals
from autofusion_kernels_cpu.conv.winograd.schedule import Plan
from autofusion_kernels_cpu.conv.winograd.transforms import TAPS, transforms
from autofusion_kernels_cpu.packed import packed

# Columns of a matrix product that is too small for NumPy to wake threads for, which costs more than the product.
_PIECE = 1024


def transformed_weights(context: BindContext, weights: np.ndarray, plan: Plan, lanes: int) -> np.ndarray:
    """Transformed weights [group][plane][channel][lanes of the group]."""
    make = partial(_transformed, weights, plan, lanes)
    return packed(context.cache, "conv.winograd", weights, (lanes, plan.tile, plan.splits), make)


def _transformed(weights: np.ndarray, plan: Plan, lanes: int) -> np.ndarray:
    g = transforms(plan.tile).filter
    both = np.kron(g, g)
    filters, channels = weights.shape[:2]
    taps = weights.reshape(filters, channels, TAPS * TAPS)
    result = aligned_zeros(len(both) * channels * sum(plan.splits) * lanes)
    start = first = 0
    for vectors in plan.splits:
        width = vectors * lanes
        own = taps[first : first + width]
        padded = np.zeros((TAPS * TAPS, channels, width))
        padded[:, :, : len(own)] = own.transpose(2, 1, 0)
        columns = padded.reshape(TAPS * TAPS, -1)
        size = len(both) * channels * width
        made = result[start : start + size].reshape(len(both), -1)
        for x in range(0, channels * width, _PIECE):
            made[:, x : x + _PIECE] = both @ columns[:, x : x + _PIECE]
        start, first = start + size, first + width
    flush_denormals(result)
    return result
