"""Measure the rates of this machine with NumPy: a second or two, and better than any table.

Copies at a size for each level give the bandwidths, a matrix product gives the peak, ``numpy.exp`` the rate of
transcendental functions. Each number is the best of several tries: what disturbs a measurement only ever slows it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from autofusion.kernels.target import Target

TRIES = 7
MEMORY_BYTES = 64 << 20
"""Least size of the buffers that stand for memory."""


def calibrate(target: Target) -> Target:
    """``target`` with measured rates in place of detected ones."""
    l3_size = min(target.l3_bytes // 4, 8 << 20)
    return dataclasses.replace(
        target,
        peak_flops=max(_matmul_rate(), 0.5 * target.peak_flops),
        bandwidth_l2=_copy_rate(target.l2_bytes // 4),
        bandwidth_l3=_copy_rate(max(l3_size, target.l2_bytes)),
        bandwidth_memory=_shared_copy_rate(max(MEMORY_BYTES, 2 * target.l3_bytes), target.threads),
        transcendentals=_exp_rate(),
    )


def _best(run: Callable[[], object], repeats: int) -> float:
    """Seconds of one ``run``: the best of several tries of ``repeats`` runs each."""
    run()
    best = float("inf")
    for _ in range(TRIES):
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def _copy_rate(nbytes: int) -> float:
    """Bytes/s, read and written, of copying ``nbytes`` on one thread."""
    source, sink = np.ones(nbytes // 4, np.float32), np.zeros(nbytes // 4, np.float32)
    sink.fill(1)  # untouched pages would all be one and the same page
    return 2 * nbytes / _best(lambda: np.copyto(sink, source), max(1, (8 << 20) // nbytes))


def _shared_copy_rate(nbytes: int, threads: int) -> float:
    """Bytes/s, read and written, of all threads copying together; ``nbytes`` in all."""
    parts = [
        (np.ones(nbytes // 4 // threads, np.float32), np.ones(nbytes // 4 // threads, np.float32))
        for _ in range(threads)
    ]
    with ThreadPoolExecutor(threads) as pool:
        seconds = _best(lambda: list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), parts)), 1)
    return 2 * nbytes / seconds


def _matmul_rate() -> float:
    """Flop/s of one thread on a product of small matrices (a BLAS uses one thread for these)."""
    size = 96
    a, b, c = (np.ones((size, size), np.float32) for _ in range(3))
    return 2.0 * size**3 / _best(lambda: np.matmul(a, b, out=c), 200)


def _exp_rate() -> float:
    """Evaluations/s of one thread on data in the first cache."""
    x = np.linspace(-4, 4, 4096, dtype=np.float32)
    y = np.empty_like(x)
    return x.size / _best(lambda: np.exp(x, out=y), 200)
