"""Pooling over regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, lowest, wide

_CHUNK = 1 << 22
"""About how many gathered values are held at once."""


def _counted(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For groups of ``counts`` elements one after another: the group of each element, and its place in the group."""
    group = np.repeat(np.arange(len(counts)), counts)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)


def _linear(at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(lower index, upper index, weight of the upper, whether the sample counts) along one axis."""
    counts = (at >= -1) & (at <= size)
    at = np.where(counts, np.clip(at, 0, size - 1), 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    return low, np.minimum(low + 1, size - 1), at - low, counts


def _roi_align(node: Node, inputs: Inputs) -> list[Any]:
    """X [N, C, H, W], rois [R, 4] as (x1, y1, x2, y2), batch indices [R] -> [R, C, height, width].

    Every bin takes the average or the maximum over a grid of samples; the grids may differ from roi to roi. The
    maximum is over the four weighted neighbours of each sample, as the operator set defines it.
    """
    x, rois, batch = inputs[0], inputs[1], np.asarray(inputs[2]).astype(np.int64)
    n, c, height, width = x.shape
    shape = (node.attr("output_height", 1), node.attr("output_width", 1))
    half = node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    ratio, largest = node.attr("sampling_ratio", 0), node.attr("mode", "avg") == "max"
    if batch.size and not (0 <= batch.min() and batch.max() < n):
        raise IndexError(f"a batch index lies outside [0, {n - 1}]")
    # The number of samples follows from the extent by rounding up, in the precision of the rois.
    precision = np.float64 if rois.dtype == np.float64 else np.float32
    corners = rois.astype(precision) * precision(node.attr("spatial_scale", 1.0)) - precision(0.5 if half else 0)
    start, extent = corners[:, 1::-1], corners[:, 3:1:-1] - corners[:, 1::-1]
    if not half:
        extent = np.maximum(extent, 1)
    bins = extent / np.array(shape, precision)
    grid = np.full(bins.shape, ratio, np.int64) if ratio > 0 else np.maximum(np.ceil(bins), 0).astype(np.int64)
    rows = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).reshape(-1, c)
    out = np.zeros((len(rois), *shape, c))
    samples = grid.prod(1) * shape[0] * shape[1]
    chunk = np.cumsum(samples * max(c, 1)) // _CHUNK
    for part in np.split(np.arange(len(rois)), np.flatnonzero(np.diff(chunk)) + 1):
        part = part[samples[part] > 0]
        if not part.size or not c:
            continue
        # One entry for each sample, those of one bin next to each other.
        bin_of, place = _counted(np.repeat(grid[part].prod(1), shape[0] * shape[1]))
        roi, cell = part[bin_of // (shape[0] * shape[1])], bin_of % (shape[0] * shape[1])
        axes = []
        for axis, size in enumerate((height, width)):
            where = cell // shape[1] if axis == 0 else cell % shape[1]
            step = place // grid[roi, 1] if axis == 0 else place % grid[roi, 1]
            size_of_bin = bins[roi, axis].astype(np.float64)
            at = start[roi, axis] + where * size_of_bin + (step + 0.5) * size_of_bin / grid[roi, axis]
            axes.append(_linear(at, size))
        (y0, y1, fy, y_counts), (x0, x1, fx, x_counts) = axes
        first = batch[roi] * height
        counts = (y_counts & x_counts).astype(np.float64)
        total: Any = None
        for row, wy in ((y0, 1 - fy), (y1, fy)):
            for column, wx in ((x0, 1 - fx), (x1, fx)):
                seen = wide(np.take(rows, (first + row) * width + column, axis=0)) * (wy * wx * counts)[:, None]
                total = seen if total is None else np.maximum(total, seen) if largest else total + seen
        begins = np.flatnonzero(place == 0)
        reduced = (np.maximum if largest else np.add).reduceat(total, begins, axis=0)
        if not largest:
            reduced /= np.repeat(grid[part].prod(1), shape[0] * shape[1])[:, None]
        out[part] = reduced.reshape(len(part), *shape, c)
    return [out.transpose(0, 3, 1, 2).astype(x.dtype)]


def _max_roi_pool(node: Node, inputs: Inputs) -> list[Any]:
    """X [N, C, H, W], rois [R, 5] as (batch, x1, y1, x2, y2) -> [R, C, height, width]; an empty bin is 0.

    The maximum of a rectangle is taken over its rows first and over its columns then, each by a running index over
    the largest bin.
    """
    x, rois = inputs
    c, *limits = x.shape[1:]
    pooled = [int(v) for v in node.attrs["pooled_shape"]]
    # Rounding decides which rows belong to a bin: it is done in the precision of the rois, as everywhere else.
    precision = np.float64 if rois.dtype == np.float64 else np.float32
    scaled = rois[:, 1:] * precision(node.attr("spatial_scale", 1.0))
    corners = np.copysign(np.floor(np.abs(scaled) + precision(0.5)), scaled).astype(np.int64)
    batch = rois[:, 0].astype(np.int64)
    bounds = []
    for axis in (0, 1):
        first, last = corners[:, 1 - axis], corners[:, 3 - axis]
        size = np.maximum(last - first + 1, 1).astype(precision) / precision(pooled[axis])
        cells = np.arange(pooled[axis]).astype(precision)
        low = np.floor(cells * size[:, None]).astype(np.int64) + first[:, None]
        high = np.ceil((cells + 1) * size[:, None]).astype(np.int64) + first[:, None]
        bounds.append((np.clip(low, 0, limits[axis]), np.clip(high, 0, limits[axis])))
    (y_low, y_high), (x_low, x_high) = bounds
    values = wide(x).transpose(0, 2, 3, 1)
    bottom = lowest(values.dtype)
    rows = np.full((len(rois), pooled[0], limits[1], c), bottom, values.dtype)
    for k in range(int((y_high - y_low).max(initial=0))):
        at = y_low + k
        seen = values[batch[:, None], np.minimum(at, limits[0] - 1)]
        rows = np.maximum(rows, np.where((at < y_high)[..., None, None], seen, bottom))
    out = np.full((len(rois), *pooled, c), bottom, values.dtype)
    for k in range(int((x_high - x_low).max(initial=0))):
        at = x_low + k
        seen = np.take_along_axis(rows, np.minimum(at, limits[1] - 1)[:, None, :, None], axis=2)
        out = np.maximum(out, np.where((at < x_high)[:, None, :, None], seen, bottom))
    empty = (y_high <= y_low)[:, :, None] | (x_high <= x_low)[:, None, :]
    return [np.where(empty[..., None], 0, out).transpose(0, 3, 1, 2).astype(x.dtype)]


OPS: dict[str, OpFunction] = {"MaxRoiPool": _max_roi_pool, "RoiAlign": _roi_align}
