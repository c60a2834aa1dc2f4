"""Which way to cut and order a convolution's work, from its sizes and the machine's caches, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from autofusion.kernels import Target
from autofusion_kernels_cpu import estimate
from autofusion_kernels_cpu.estimate import bandwidth, overlapped

CHUNK_BYTES = 72 << 10
"""Weights of one chunk: they come through the second-level cache while the chunk before is used."""
EXPOSED = 0.4
"""Share of the shorter of arithmetic and traffic that adds to the longer one. Measured with weights beyond the
second-level cache: prefetched loads still get in each other's way."""
WORTH_A_THREAD = 5e-6
"""Two threads from twice this on: a layer's input was written by all of them, and its lines have to change cores."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How to cut and order the work. `filter_threads` times `plane_threads` threads work.

    `block_pixels > 0`: that many pixels at a time meet all filter groups. Otherwise a filter group meets all pixels
    before the next one, `chunk_floats` of its weights at a time, prefetching what follows.
    """

    filter_threads: int
    plane_threads: int
    block_pixels: int = 0
    chunk_floats: int = 0
    prefetch: bool = False

    @property
    def workers(self) -> int:
        """Threads that work."""
        return self.filter_threads * self.plane_threads


@dataclass(frozen=True, slots=True)
class StepSize:
    """Sizes of one step: filter groups, weights of each, input, tiles and rows of one filter group, input channels."""

    groups: int
    group_floats: int
    input_floats: int
    tiles: int
    rows: int
    pixels: int
    channels: int
    taps: int


def schedule(size: StepSize, workers: int, target: Target) -> Schedule:
    """Split for `workers` threads over filters or over pixels, with filters or pixels in the outer loop.

    Measured: pixels outside win for 1x1 with more input than weights (the input is read once); weights outside, in
    chunks with prefetching, win wherever weights come from memory.
    """
    weights, inputs = 4 * size.groups * size.group_floats, 4 * size.input_floats
    by_pixels = size.taps == 1 and inputs > 2 * weights
    units = size.rows if size.rows >= 8 * workers else size.tiles
    best: tuple[float, int] | None = None
    for filters in range(1, workers + 1):
        if workers % filters:
            continue
        planes = workers // filters
        share = -(-size.groups // filters) / size.groups * -(-units // planes) / units
        # Threads that share an input read it once for all; threads that share weights read those once for all.
        price = share * (1.0 + 0.04 * (filters if by_pixels else planes) / workers)
        if best is None or price < best[0]:
            best = (price, filters)
    assert best is not None
    filters = best[1]
    planes = workers // filters
    if by_pixels or (weights <= target.l2_bytes // 4 and size.groups > 1 and inputs > target.l2_bytes // 2):
        block = max(1, target.l2_bytes // 8 // (4 * size.channels))
        return Schedule(filters, planes, block_pixels=block)
    if weights > 200 << 10:
        return Schedule(filters, planes, chunk_floats=CHUNK_BYTES // 4, prefetch=True)
    return Schedule(filters, planes)


def seconds(target: Target, cycles: float, weights: float, reread: float, tensors: float, workers: int) -> float:
    """Time on `workers` threads whose busiest one computes for `cycles` (two vector FMAs a cycle are the peak).

    `weights` are the bytes of all weights, `reread` those of them that all threads read more than once, `tensors` the
    bytes of operands and results. Other layers have run since the weights were used last: the first time they come
    from beyond the second-level cache, large ones from memory.
    """
    cold = bandwidth(target, max(weights, target.l2_bytes * workers + 1), workers)
    if weights > target.l2_bytes:
        cold = min(cold, target.bandwidth_memory)
    traffic = weights / cold + tensors / bandwidth(target, tensors, workers)
    if reread:
        traffic += reread / (bandwidth(target, weights / workers, 1) * workers)
    return overlapped(cycles / (target.peak_flops / (4 * target.lanes)), traffic, EXPOSED)


def useful_threads(target: Target, alone: float) -> int:
    """How many threads are worth using for a convolution that takes one of them `alone` seconds."""
    return estimate.useful_threads(target, alone, WORTH_A_THREAD)


def cost(target: Target, cycles: float, weights: float, tensors: float) -> tuple[float, int]:
    """(seconds, threads worth using) of an algorithm that computes for `cycles` of one core and cuts evenly."""
    workers = useful_threads(target, seconds(target, cycles, weights, 0, tensors, 1))
    return seconds(target, cycles / workers, weights, 0, tensors, workers), workers
