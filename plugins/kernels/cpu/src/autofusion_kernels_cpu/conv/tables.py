"""Where a kernel finds the inputs of a sum: int64 [entries, 2] of (offset in floats, number of k)."""

from __future__ import annotations

import numpy as np

from autofusion_kernels_cpu.conv.memory import Strided
from autofusion_kernels_cpu.conv.phases import Phase


def blocked_table(runs: np.ndarray, shifts: np.ndarray, x: Strided) -> np.ndarray:
    """For blocked input: every run of channels of one block (channel block, first lane, channels), at every shift."""
    base = runs[:, 0] * x.block + runs[:, 1]
    return _table(base[:, None] + shifts, runs[:, 2:])


def depthwise_table(shifts: np.ndarray, together: int) -> np.ndarray:
    """For one filter a channel: every row of `together` taps."""
    return _table(shifts[::together], 1)


def planar_table(channels: int, phase: Phase, x: Strided, together: int) -> np.ndarray:
    """For a plain image: `together` taps of a row are neighbours of one channel."""
    depth, height, width = (np.array([shift for _, shift in taps], np.int64) for taps in phase.taps)
    channel = np.arange(channels)[:, None, None] * x.block
    rows = channel + depth[:, None] * x.depth + height * x.height
    return _table(rows[..., None] + width[::together], together)


def _table(offsets: np.ndarray, count: int | np.ndarray) -> np.ndarray:
    made = np.empty((*offsets.shape, 2), np.int64)
    made[..., 0], made[..., 1] = offsets, count
    return made.reshape(-1, 2)
