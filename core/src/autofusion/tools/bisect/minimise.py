"""Find the few among many that cause a failure, in few runs.

Units are in an order, and a prefix of them fails as soon as it holds all that is needed. The end of the shortest
failing prefix is therefore needed, and binary search finds it; with that unit kept, the rest of the prefix is searched
again until what was kept fails on its own. A single culprit among n takes ceil(log2 n) runs and one to confirm; k units
that only fail together take k times that. A suspect that fails alone takes one: where a failure was seen is often where
it comes from, and a run that hangs lasts as long as its time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

ALIKE = 3
"""Culprits of one kind that are named one by one; if there are more, the kind is to blame."""


def minimal_failing(units: Sequence[T], fails: Callable[[Sequence[T]], bool], suspects: Collection[T] = ()) -> list[T]:
    """A subset of ``units`` that fails, of which every unit is needed, in order; the first of the ``suspects`` among
    them is tried alone before anything else.

    ``fails(units)`` is known to be true and ``fails(())`` to be false; neither is asked. Where failure is not
    monotonic (one unit hides what another does), the result still fails.
    """
    suspect = [unit for unit in suspects if unit in units][:1]
    if suspect and len(units) > 1 and fails(tuple(suspect)):
        return suspect
    position = {unit: number for number, unit in enumerate(units)}
    kept: list[T] = []
    pool = list(units)
    while pool:
        low, high = 0, len(pool)  # the prefix of ``low`` is fine, that of ``high`` fails
        while high - low > 1:
            middle = (low + high) // 2
            if fails(_ordered(kept + pool[:middle], position)):
                high = middle
            else:
                low = middle
        kept.append(pool[high - 1])
        pool = pool[: high - 1]
        if not pool or fails(_ordered(kept, position)):
            break
    return list(_ordered(kept, position))


def _ordered(units: Sequence[T], position: dict[T, int]) -> Sequence[T]:
    return tuple(sorted(units, key=position.__getitem__))


def every_culprit(
    units: Sequence[T],
    fails: Callable[[Sequence[T]], bool],
    related: Callable[[T, T], bool],
    suspects: Collection[T] = (),
) -> Iterator[tuple[list[T], bool]]:
    """One minimal failing subset after the other, until what is left no longer fails.

    With each comes whether more than ALIKE like it (``related``) fail: then it alone is told, and all like it are left
    out of what follows, rather than found one by one. ``fails(units)`` is known to be true and ``fails(())`` to be
    false.
    """
    left = list(units)
    while left:
        core = minimal_failing(left, fails, suspects)
        left = _without(left, core)
        if not left or not fails(left):
            yield core, False
            return
        others = [unit for unit in left if any(related(unit, one) for one in core)]
        alike = [core]
        while others and fails(others):
            if len(alike) == ALIKE:
                break
            alike.append(minimal_failing(others, fails, suspects))
            others = _without(others, alike[-1])
        else:
            yield from ((one, False) for one in alike)
            left = _without(left, [unit for one in alike for unit in one])
            if len(alike) > 1 and (not left or not fails(left)):
                return
            continue
        yield core, True
        left = [unit for unit in left if not any(related(unit, one) for one in core)]
        if not left or not fails(left):
            return


def _without(units: Sequence[T], some: Collection[T]) -> list[T]:
    return [unit for unit in units if unit not in some]
