"""What a convolution costs: its arithmetic, and the part of its memory traffic that does not hide behind it."""

from __future__ import annotations

from autofusion.kernels import Target
from autofusion_kernels_cpu.estimate import bandwidth

EXPOSED = 0.4
"""Share of the shorter of arithmetic and traffic that adds to the longer one. Measured with weights beyond the
second-level cache: prefetched loads still get in each other's way."""

_WORTH_A_THREAD = 5e-6
"""Two threads from twice this on: a layer's input was written by all of them, and its lines have to change cores."""


def hertz(target: Target) -> float:
    """Cycles a second: the peak is two vector FMAs a cycle."""
    return target.peak_flops / (4 * target.lanes)


def seconds(target: Target, cycles: float, weights: float, again: float, tensors: float, workers: int) -> float:
    """Time on `workers` threads whose busiest one computes for `cycles`.

    `weights` are the bytes of all weights, `again` those that all threads read for a second time and so on, `tensors`
    the bytes of operands and results. Other layers have run since the weights were used last: the first time they come
    from beyond the second-level cache, large ones from memory.
    """
    cold = bandwidth(target, max(weights, target.l2_bytes * workers + 1), workers)
    if weights > target.l2_bytes:
        cold = min(cold, target.bandwidth_memory)
    traffic = weights / cold + tensors / bandwidth(target, tensors, workers)
    if again:
        traffic += again / (bandwidth(target, weights / workers, 1) * workers)
    arithmetic = cycles / hertz(target)
    return max(arithmetic, traffic) + EXPOSED * min(arithmetic, traffic)


def useful_threads(target: Target, alone: float) -> int:
    """How many threads are worth using for work that takes one of them `alone` seconds."""
    return max(1, min(target.threads, int(alone / _WORTH_A_THREAD)))
