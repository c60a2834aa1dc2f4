"""Which way to cut and order a convolution's work, from its sizes and the machine's caches."""

from __future__ import annotations

from dataclasses import dataclass

from autofusion.kernels import Target
from autofusion_kernels_cpu.conv.tasks import Schedule

CHUNK_BYTES = 72 << 10
"""Weights of one chunk: they come through the second-level cache while the chunk before is used."""


@dataclass(frozen=True, slots=True)
class Load:
    """Sizes of one step: filter groups, weights of each, input, tiles and rows of one filter group, input channels."""

    groups: int
    group_floats: int
    input_floats: int
    tiles: int
    rows: int
    pixels: int
    channels: int
    taps: int


def schedule(load: Load, workers: int, target: Target) -> Schedule:
    """Split for `workers` threads over filters or over pixels, with filters or pixels in the outer loop.

    Measured: pixels outside win for 1x1 with more input than weights (the input is read once); weights outside, in
    chunks with prefetching, win wherever weights come from memory.
    """
    weights, inputs = 4 * load.groups * load.group_floats, 4 * load.input_floats
    by_pixels = load.taps == 1 and inputs > 2 * weights
    units = load.rows if load.rows >= 8 * workers else load.tiles
    best: tuple[float, int] | None = None
    for filters in range(1, workers + 1):
        if workers % filters:
            continue
        planes = workers // filters
        share = -(-load.groups // filters) / load.groups * -(-units // planes) / units
        # Threads that share an input read it once for all; threads that share weights read those once for all.
        price = share * (1.0 + 0.04 * (filters if by_pixels else planes) / workers)
        if best is None or price < best[0]:
            best = (price, filters)
    assert best is not None
    filters = best[1]
    planes = workers // filters
    if by_pixels or (weights <= target.l2_bytes // 4 and load.groups > 1 and inputs > target.l2_bytes // 2):
        block = max(1, target.l2_bytes // 8 // (4 * load.channels))
        return Schedule(filters, planes, block_pixels=block)
    if weights > 200 << 10:
        return Schedule(filters, planes, chunk_floats=CHUNK_BYTES // 4, prefetch=True)
    return Schedule(filters, planes)
