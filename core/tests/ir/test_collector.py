"""The pause of the cycle collector: nothing is walked inside, and what dies is found all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from autofusion.ir import collector
from autofusion.ir.collector import collector_paused


class Knot:
    """An object that only the cycle collector can free."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(collector, "_unseen", 0)
    gc.collect()
    yield
    gc.unfreeze()


def knots(count: int) -> list[weakref.ref[Knot]]:
    return [weakref.ref(Knot()) for _ in range(count)]


def alive(found: list[weakref.ref[Knot]]) -> int:
    return sum(each() is not None for each in found)


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_nothing_is_collected_inside_nor_at_the_end() -> None:
    with collector_paused():
        assert not gc.isenabled()
        before = collections()
        with collector_paused():
            found = knots(20_000)
        assert not gc.isenabled(), "the outer pause goes on"
    assert gc.isenabled()
    assert collections() == before
    assert alive(found) == 20_000


def test_garbage_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_MOST_UNSEEN", 10_000)
    found: list[weakref.ref[Knot]] = []
    for _ in range(40):
        with collector_paused():
            found += knots(1_000)
        assert alive(found) <= 12_000


def test_what_someone_else_froze_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collector_paused():
        knots(10)
    assert gc.get_freeze_count() == frozen > 0


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(ValueError), collector_paused():
        raise ValueError
    assert gc.isenabled()
