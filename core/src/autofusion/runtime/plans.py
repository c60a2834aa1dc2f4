"""The plans of one session: how many are kept and how large they may be together, evicted by use, and counted.

Finding a plan takes no lock. New plans are made one after another, while runs of known shapes go on.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from autofusion.forks import RenewedLock, renew_after_fork
from autofusion.options import Options
from autofusion.runtime.arena import Arena
from autofusion.runtime.statistics import Statistics

LOG = logging.getLogger("autofusion.runtime")

DROPPED = -1

_ticks = itertools.count(1)


class Planned(Protocol):
    """What ``Plans`` keeps."""

    used: int
    """When it was last used: a number that grows with time; ``DROPPED`` if it is not kept any more."""

    @property
    def nbytes(self) -> int:
        """Estimated bytes, activations not counted."""
        ...

    @property
    def arena(self) -> Arena:
        """Where its activations are."""
        ...

    def release(self) -> None:
        """Let go of the plans behind it."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    owner: dict[Any, Any]
    key: tuple[Any, ...]
    plan: Planned


@dataclass(slots=True)
class Counters:
    """Mutable counters behind ``Statistics``. Increments of two threads may be lost; nothing depends on them."""

    plans: int = 0
    hits: int = 0
    replays: int = 0
    full: int = 0
    evictions: int = 0
    fallbacks: int = 0
    seconds: float = 0.0


def touch(plan: Planned) -> None:
    """Note that ``plan`` is used now."""
    plan.used = next(_ticks)


@dataclass(eq=False)
class Plans:
    """All plans of a session, whichever graph they are of: at most ``limit``, of at most ``memory`` bytes together.

    The plan made last is kept whatever its size. ``planning`` is held while a plan is made.
    """

    limit: int
    memory: int
    counters: Counters = field(default_factory=Counters)

    @classmethod
    def within(cls, options: Options) -> Plans:
        """Bounded as the options say."""
        return cls(options.plan_limit, options.plan_memory)

    def __post_init__(self) -> None:
        self._entries: list[_Entry] = []
        self.planning = RenewedLock()
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """Locks that nobody holds; see ``forks``."""
        self._lock = threading.Lock()

    def add(self, owner: dict[Any, Any], key: tuple[Any, ...], plan: Planned) -> None:
        """Keep ``plan`` as ``owner[key]``; drop those that were used longest ago if there are too many."""
        touch(plan)
        with self._lock:
            owner[key] = plan
            self._entries.append(_Entry(owner, key, plan))
            dropped = list(self._excess(plan))
        for entry in dropped:
            self.counters.evictions += 1
            LOG.info("plan evicted: %s", ", ".join(map(str, entry.key)))
            entry.plan.release()

    def _excess(self, newest: Planned) -> Iterator[_Entry]:
        total = sum(entry.plan.nbytes for entry in self._entries)
        while len(self._entries) > 1 and (len(self._entries) > self.limit or total > self.memory):
            oldest = min((e for e in self._entries if e.plan is not newest), key=lambda e: e.plan.used)
            self._entries.remove(oldest)
            oldest.owner.pop(oldest.key, None)
            oldest.plan.used = DROPPED
            total -= oldest.plan.nbytes
            yield oldest

    def forget(self, owner: dict[Any, Any]) -> None:
        """Drop every plan of ``owner``."""
        with self._lock:
            gone = [entry for entry in self._entries if entry.owner is owner]
            self._entries = [entry for entry in self._entries if entry.owner is not owner]
            owner.clear()
        for entry in gone:
            entry.plan.used = DROPPED
            entry.plan.release()

    def statistics(self) -> Statistics:
        """What has been counted so far."""
        with self._lock:
            plans = [entry.plan for entry in self._entries]
        c = self.counters
        arenas = {plan.arena for plan in plans}
        return Statistics(
            plans=c.plans,
            hits=c.hits,
            replays=c.replays,
            full=c.full,
            evictions=c.evictions,
            fallbacks=c.fallbacks,
            kept=len(plans),
            plan_bytes=sum(plan.nbytes for plan in plans),
            arena_bytes=sum(arena.wanted for arena in arenas),
            seconds=c.seconds,
        )


class Turns:
    """Lets the first who wants a key make what belongs to it, and the others wait for that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._making: dict[Hashable, tuple[int, threading.Event]] = {}

    def take(self, key: Hashable, is_made: Callable[[], bool]) -> bool:
        """True if it is the caller's turn to make ``key``; False once somebody has made it, or has tried to.

        The caller calls ``done`` afterwards in any case, also if an exception (of a signal handler) ends this call.
        """
        with self._lock:
            if is_made():
                return False
            other = self._making.get(key)
            if other is None:
                self._making[key] = threading.get_ident(), threading.Event()
                return True
        other[1].wait()
        return False

    def done(self, key: Hashable) -> None:
        """Let the others go on, if it was the caller's turn."""
        with self._lock:
            thread, made = self._making.get(key, (0, None))
            if made is not None and thread == threading.get_ident():
                del self._making[key]
                made.set()
