"""The ways in which a direct convolution lays out its sum, and how many cycles each takes."""

from __future__ import annotations

import enum
import functools
import math

from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.tiles import channel_groups, cover
from autofusion_kernels_cpu.conv.weights import channel_runs, filter_groups


class Variant(enum.Enum):
    """How the sum is laid out for the kernel."""

    BLOCKED = "direct"
    """Blocked input; the k loop runs along channels."""
    DEPTHWISE = "depthwise"
    """Blocked input, one filter for each channel; there is no k loop."""
    PLANAR = "planar"
    """Plain input with few channels (an image); the k loop runs along the taps of a row, so that three channels are no
    hindrance.
    """


@functools.lru_cache(1024)
def splits_of(isa: Isa, geometry: Geometry, variant: Variant, pixels: int) -> tuple[int, ...]:
    """Channel blocks of each filter group, for rows of `pixels`."""
    lanes = isa.lanes
    blocks = -(-geometry.filters // lanes)
    if variant is Variant.DEPTHWISE:
        return (1,) * blocks
    if geometry.groups == 1:
        return channel_groups(isa, blocks, pixels)
    if geometry.group_filters % lanes == 0:
        return channel_groups(isa, geometry.group_filters // lanes, pixels) * geometry.groups
    # Groups that share a block: more blocks in a tile would multiply by zeros only.
    return (1,) * blocks


def row_taps(geometry: Geometry) -> int:
    """Taps of a row that a depthwise kernel takes together: those of common, undilated filters."""
    width = geometry.axes[2]
    return width.kernel if width.dilation == 1 and width.kernel in (3, 5, 7) else 1


def taps_together(geometry: Geometry, variant: Variant) -> int:
    """Taps of a row that one entry of a table stands for."""
    if variant is Variant.PLANAR:
        return geometry.axes[2].kernel if geometry.axes[2].dilation == 1 else 1
    return row_taps(geometry) if variant is Variant.DEPTHWISE else 1


@functools.lru_cache(1024)
def cycles_of(isa: Isa, geometry: Geometry, variant: Variant) -> float:
    """Cycles of one core, were all data in the first-level cache."""
    axes = geometry.axes
    rows, pixels = axes[0].out * axes[1].out, axes[2].out
    if geometry.is_pointwise:
        rows, pixels = 1, rows * pixels
    if geometry.transposed:
        # All phases together.
        pixels = -(-pixels // axes[2].stride)
        rows = rows * axes[2].stride
    entries = geometry.taps / (math.prod(a.stride for a in axes) if geometry.transposed else 1)
    lanes = isa.lanes
    if variant is Variant.DEPTHWISE:
        blocks = -(-geometry.filters // lanes)
        together = row_taps(geometry)
        return geometry.batch * rows * blocks * geometry.taps / together * cover(isa, 1, pixels, together).cycles
    splits = splits_of(isa, geometry, variant, pixels)
    lines = axes[0].kernel * axes[1].kernel if variant is Variant.PLANAR else 0
    channels = (geometry.filters, geometry.group_channels, geometry.group_filters)
    steps = _steps(splits, lanes, *channels, entries, lines)
    return geometry.batch * rows * sum(cover(isa, vectors, pixels).cycles * count for vectors, count in steps)


@functools.lru_cache(1024)
def _steps(
    splits: tuple[int, ...],
    lanes: int,
    filters: int,
    group_channels: int,
    group_filters: int,
    entries: float,
    lines: int,
) -> tuple[tuple[int, float], ...]:
    """(channel blocks of a group, k steps of a pixel of all groups of that size); `lines` of taps of a plain image."""
    found: dict[int, float] = {}
    for group in filter_groups(splits, lanes, filters, group_channels, group_filters):
        channels = group.last - group.first
        runs = channels * lines if lines else len(channel_runs(group, lanes)) * entries
        # A table entry costs about four k steps' worth of loop and load latency.
        steps = channels * entries + 2 * runs / max(group.vectors, 1)
        found[group.vectors] = found.get(group.vectors, 0.0) + steps
    return tuple(found.items())
