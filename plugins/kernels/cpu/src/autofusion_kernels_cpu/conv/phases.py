"""Output positions that meet the same taps: all of a convolution, or one remainder each of a transposed one."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.conv.geometry import Geometry, transposed_phases


@dataclass(frozen=True, slots=True)
class Phase:
    """For each axis: first output position, step to the next, how many, and (kernel index, input shift in elements) of
    each tap.
    """

    first: tuple[int, int, int]
    step: tuple[int, int, int]
    count: tuple[int, int, int]
    taps: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def size(self) -> int:
        """Taps over all axes."""
        depth, height, width = map(len, self.taps)
        return depth * height * width

    def kernel_indices(self, kernels: tuple[int, ...]) -> np.ndarray:
        """The number of each tap's weight among all of a filter, in order."""
        depth, height, width = (np.array([k for k, _ in taps], np.int64) for taps in self.taps)
        return ((depth[:, None, None] * kernels[1] + height[:, None]) * kernels[2] + width).ravel()

    def input_offsets(self, strides: tuple[int, int, int]) -> np.ndarray:
        """The offset of each tap's input for strides along the axes, in order."""
        shifts = _shifts(self.taps)
        return shifts @ np.array(strides)


@functools.lru_cache(1024)
def _shifts(taps: tuple[tuple[tuple[int, int], ...], ...]) -> np.ndarray:
    """[taps, axes]: how far the input of each tap is shifted along the axes."""
    axes = [np.array([shift for _, shift in each], np.int64) for each in taps]
    return np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)


@functools.lru_cache(1024)
def phases(geometry: Geometry) -> tuple[Phase, ...]:
    """The phases of a convolution: one unless it is transposed with a stride."""
    if not geometry.transposed:
        depth, height, width = geometry.axes
        taps = tuple(tuple((k, k * a.dilation - a.low) for k in range(a.kernel)) for a in geometry.axes)
        return (Phase((0, 0, 0), (1, 1, 1), (depth.out, height.out, width.out), taps),)
    made = []
    for depth, height, width in itertools.product(*(transposed_phases(a) for a in geometry.axes)):
        first, count, taps = zip(depth, height, width, strict=True)
        d, h, w = geometry.axes
        made.append(Phase(first, (d.stride, h.stride, w.stride), count, tuple(map(tuple, taps))))
    return tuple(made)
