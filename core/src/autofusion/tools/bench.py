"""Side-by-side measurement: all contenders in one process, interleaved in short blocks, as ratios.

A machine's speed drifts and other programs interfere; blocks that alternate see the same weather, and the minimum
and the median over blocks say more than a mean.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Run = Callable[[], object]
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one contender."""

    name: str
    median: float
    minimum: float
    runs: int
    percentiles: Mapping[str, float]
    """Seconds that 50, 90, 95 and 99 per cent of the runs stay below, by ``p50`` and so on."""


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
    return [Timing(n, statistics.median(s), min(s), len(s), percentiles(s)) for n, s in samples.items()]


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """The smallest sample that so many per cent of them do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return {f"p{p}": ordered[max(math.ceil(p / 100 * len(ordered)), 1) - 1] for p in PERCENTILES}


def throughput(runs: Sequence[Run], seconds: float) -> float:
    """Runs a second, of all together, when each of ``runs`` is called again and again by a thread of its own.

    What a thread raises is raised here.
    """
    counts = [0] * len(runs)
    failures: list[BaseException] = []
    start, end = threading.Barrier(len(runs) + 1), [math.inf]

    def stream(number: int) -> None:
        try:
            runs[number]()
            start.wait()
            while time.perf_counter() < end[0] and not failures:
                runs[number]()
                counts[number] += 1
        except BaseException as error:
            failures.append(error)
            start.abort()

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(len(runs))]
    for thread in threads:
        thread.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        start.wait()
    begun = time.perf_counter()
    end[0] = begun + seconds
    for thread in threads:
        thread.join()
    if failures:
        raise next((e for e in failures if not isinstance(e, threading.BrokenBarrierError)), failures[0])
    return sum(counts) / (time.perf_counter() - begun)


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
