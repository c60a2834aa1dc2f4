"""Interleaved timing and how far outputs are apart."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from autofusion.tools import words
from autofusion.tools.bench import geometric_mean, interleave
from autofusion.tools.compare import NONE, compare, difference


def test_contenders_take_turns_and_the_slower_one_shows() -> None:
    order: list[str] = []

    def sleeper(name: str, seconds: float) -> None:
        order.append(name)
        time.sleep(seconds)

    timings = interleave(
        {"slow": lambda: sleeper("slow", 0.004), "fast": lambda: sleeper("fast", 0.001)},
        seconds=0.3,
        block=0.02,
        pause=0.0,
    )
    slow, fast = timings
    assert (slow.name, fast.name) == ("slow", "fast")
    assert slow.runs >= 10 and fast.runs >= 10
    assert slow.median > fast.median and slow.minimum >= 0.004 and slow.minimum <= slow.median
    changes = sum(a != b for a, b in itertools.pairwise(order))
    assert changes >= 6, "the contenders ran one after the other"


def test_even_a_slow_contender_runs_ten_times() -> None:
    count = 0

    def run() -> None:
        nonlocal count
        count += 1

    (timing,) = interleave({"only": run}, seconds=0.0, block=0.0, pause=0.0)
    assert timing.runs >= 10 and count > timing.runs


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_equal_arrays_are_not_apart() -> None:
    x = np.float32([1, -2, 3])
    assert difference(x, x) == NONE


def test_every_figure_of_a_difference() -> None:
    found = difference(np.float32([1.0, 2.5, 0.0]), np.float32([1.0, 2.0, 1e-6]))
    assert found.max_abs == pytest.approx(0.5)
    assert found.max_over_range == pytest.approx(0.25)
    assert found.mean_relative == pytest.approx(0.125)  # the value near zero does not count
    assert found.same_nonfinite


def test_not_a_number_must_be_at_the_same_places() -> None:
    expected = np.float32([np.nan, np.inf, 1])
    assert difference(expected, expected).same_nonfinite
    assert not difference(np.float32([1, np.inf, 1]), expected).same_nonfinite
    lost = difference(np.float32([np.nan, np.inf, np.nan]), expected)
    assert not lost.same_nonfinite and lost.max_abs == np.inf


def test_other_shapes_and_strings() -> None:
    assert difference(np.zeros(2), np.zeros(3)).max_abs == np.inf
    words = np.array(["a", "b"], object)
    assert difference(words, words) == NONE
    assert difference(words, np.array(["a", "c"], object)).max_abs == np.inf
    assert difference(np.zeros(0), np.zeros(0)) == NONE


def test_the_worst_output_counts() -> None:
    expected = {"a": np.float32([1.0]), "b": np.float32([1.0])}
    got = {"a": np.float32([1.0]), "b": np.float32([1.5])}
    assert compare(got, expected).max_abs == pytest.approx(0.5)


def test_words() -> None:
    assert [words.time(t) for t in (1.25e-6, 9.36e-5, 1.25e-3)] == ["1.2 us", "93.6 us", "1.25 ms"]
    assert [words.size(n) for n in (512, 12_300, 1_200_000)] == ["512 B", "12.3 kB", "1.2 MB"]
    assert [words.counted(n, "node") for n in (1, 3)] == ["1 node", "3 nodes"]
