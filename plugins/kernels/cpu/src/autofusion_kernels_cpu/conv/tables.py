"""Where a kernel finds the inputs of a sum: int64 [entries, 2] of (offset in floats, number of k)."""

from __future__ import annotations

import numpy as np

from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.memory import Strided
from autofusion_kernels_cpu.conv.phases import Phase
from autofusion_kernels_cpu.conv.weights import FilterGroup, channel_runs


def blocked_table(group: FilterGroup, phase: Phase, x: Strided, lanes: int) -> np.ndarray:
    """For blocked input: every run of channels of one block, at every tap."""
    return runs_table(group, phase.input_offsets((x.depth, x.height, x.width)), x, lanes)


def runs_table(group: FilterGroup, shifts: np.ndarray, x: Strided, lanes: int) -> np.ndarray:
    """Every run of channels of one block, at every shift."""
    runs = np.array(channel_runs(group, lanes), np.int64)
    base = runs[:, 0] // lanes * x.block + runs[:, 0] % lanes
    return _table(base[:, None] + shifts, runs[:, 1:])


def depthwise_table(phase: Phase, x: Strided, together: int) -> np.ndarray:
    """For one filter a channel: every row of `together` taps."""
    return _table(phase.input_offsets((x.depth, x.height, x.width))[::together], 1)


def planar_table(geometry: Geometry, phase: Phase, x: Strided) -> np.ndarray:
    """For a plain image: the taps of a row are neighbours of one channel, unless they are dilated."""
    depth, height, width = (np.array([shift for _, shift in taps], np.int64) for taps in phase.taps)
    channel = np.arange(geometry.channels)[:, None, None] * x.block
    rows = channel + depth[:, None] * x.depth + height * x.height
    if geometry.axes[2].dilation == 1:
        return _table(rows + width[0], len(width))
    return _table(rows[..., None] + width, 1)


def _table(offsets: np.ndarray, count: int | np.ndarray) -> np.ndarray:
    made = np.empty((*offsets.shape, 2), np.int64)
    made[..., 0], made[..., 1] = offsets, count
    return made.reshape(-1, 2)
