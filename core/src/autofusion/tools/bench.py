"""Side-by-side measurement: all contenders in one process, interleaved in short blocks, as ratios.

A machine's speed drifts and other programs interfere; blocks that alternate see the same weather, and the minimum
and the median over blocks say more than a mean.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one contender."""

    name: str
    median: float
    minimum: float
    runs: int


def interleave(
    contenders: Mapping[str, Run], *, seconds: float = 4.0, block: float = 0.15, pause: float = 0.03
) -> list[Timing]:
    """Time the contenders in alternating blocks for about ``seconds`` in all; each runs at least 10 times.

    ``pause`` lets the threads of the last contender go to sleep before the next one starts.
    """
    warm = {name: _warm_up(run) for name, run in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(len(s) for s in samples.values()) < 10:
        for name, run in contenders.items():
            time.sleep(pause)
            run()
            for _ in range(max(2, min(60, int(block / warm[name])))):
                start = time.perf_counter()
                run()
                samples[name].append(time.perf_counter() - start)
    return [Timing(n, statistics.median(s), min(s), len(s)) for n, s in samples.items()]


def _warm_up(run: Run) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return max(best, 1e-6)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Geometric mean of positive numbers."""
    return statistics.geometric_mean(ratios)
