"""The search for culprits: right, and in few runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofusion.tools.bisect.minimise import every_culprit, minimal_failing


class Counted:
    """Fails if all units of one of the sets are there."""

    def __init__(self, *guilty: set[int]) -> None:
        self.guilty, self.runs = guilty, 0

    def __call__(self, units: Sequence[int]) -> bool:
        self.runs += 1
        return any(g <= set(units) for g in self.guilty)


@pytest.mark.parametrize("culprit", [0, 1, 37, 149, 150, 298, 299])
def test_one_among_three_hundred(culprit: int) -> None:
    fails = Counted({culprit})
    assert minimal_failing(range(300), fails) == [culprit]
    assert fails.runs <= 10  # with the first run and a last without the culprit, 12
    fails = Counted({culprit})
    assert list(every_culprit(range(300), fails, lambda a, b: False)) == [([culprit], False)]
    assert fails.runs <= 11


def test_a_suspect_that_fails_alone_takes_one_run() -> None:
    fails = Counted({137})
    assert list(every_culprit(range(300), fails, lambda a, b: False, [137])) == [([137], False)]
    assert fails.runs == 2, "the suspect alone, and all without it"
    fails = Counted({137}, {5, 200})
    assert [core for core, _ in every_culprit(range(300), fails, lambda a, b: False, [12, 137])] == [[137], [5, 200]]
    fails = Counted({137})
    assert minimal_failing(range(300), fails, [12]) == [137]
    assert fails.runs <= 11, "one that is innocent costs one run"


@given(st.integers(1, 400), st.data())
def test_any_set_that_fails_together(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=4))
    fails = Counted(guilty)
    assert minimal_failing(range(count), fails) == sorted(guilty)
    assert fails.runs <= len(guilty) * (math.ceil(math.log2(count)) + 1)


@given(st.integers(2, 200), st.data())
def test_independent_culprits_are_all_found(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3))
    fails = Counted(*({g} for g in guilty))
    found = [one for core, _ in every_culprit(range(count), fails, lambda a, b: False) for one in core]
    assert sorted(found) == sorted(guilty)


def test_many_of_a_kind_are_told_once() -> None:
    """Ten of a kind fail, and one of another: two answers, not eleven."""
    fails = Counted(*({unit} for unit in range(0, 100, 10)))
    found = list(every_culprit(range(100), fails, lambda a, b: a % 10 == b % 10))
    assert found == [([0], True)]
    assert fails.runs <= 20


def test_two_of_a_kind_are_both_named() -> None:
    """The rest of the kind is fine, so switching all of it off would be too much."""
    fails = Counted({20}, {70}, {3})
    found = list(every_culprit(range(100), fails, lambda a, b: a % 10 == b % 10))
    assert sorted(core for core, _ in found) == [[3], [20], [70]] and not any(many for _, many in found)
    assert fails.runs <= 30


def test_failure_that_is_not_monotonic_still_gives_a_failing_set() -> None:
    def fails(units: Sequence[int]) -> bool:
        return 70 in units and not (20 in units and 30 not in units)

    found = minimal_failing(range(100), fails)
    assert fails(found)


def test_many_of_two_kinds() -> None:
    fails = Counted(*({unit} for unit in [*range(0, 100, 10), *range(5, 100, 10)]))
    found = list(every_culprit(range(100), fails, lambda a, b: a % 10 == b % 10))
    assert found == [([0], True), ([5], True)]
    assert fails.runs <= 40
