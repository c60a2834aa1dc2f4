"""Barriers that may be left out: those between runs of steps that the first thread does alone."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion_kernels_cpu.native.program import NativeStep, _drop_idle_barriers


def step(workers: int, barrier: bool = True) -> NativeStep:
    return NativeStep(0, (), np.zeros(0, np.int64), barrier, workers=workers)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ([step(1), step(1), step(1)], [0, 0, 1]),
        ([step(1), step(2), step(1)], [1, 1, 1]),
        ([step(2), step(1), step(1)], [1, 0, 1]),
        ([step(0), step(0)], [1, 1]),
        # The second step has no barrier of its own: the third, for two threads, must not begin before the first ends.
        ([step(1), step(1, False), step(2), step(1)], [1, 0, 1, 1]),
        ([step(1), step(2, False), step(1), step(1)], [1, 0, 1, 1]),
        ([step(1), step(1, False), step(1), step(1)], [0, 0, 0, 1]),
    ],
)
def test_barriers_are_kept_where_another_thread_works(steps: list[NativeStep], kept: list[int]) -> None:
    table = np.zeros((len(steps), 4), np.int64)
    table[:, 3] = [int(s.barrier) for s in steps]
    _drop_idle_barriers(table, steps)
    assert table[:, 3].tolist() == kept
