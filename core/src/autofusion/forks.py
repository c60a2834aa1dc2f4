"""Locks and forks: a lock that another thread held when the process forked stays held in the child, for ever.

The thread that would release it does not exist there. What it was about to write is either whole (entries of
dictionaries) or written anew by the next run (arenas), so the child starts with fresh locks. That cannot be said of
what is imported or compiled: Python's locks of modules and those of LLVM are not ours to renew. So a fork waits until
no other thread does that (``forks_wait``), for a few seconds at most.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PATIENCE = 10.0
"""Seconds that a fork waits for other threads. If one compiles for longer, the child may not be able to."""
_POLL = 0.001


class Locked(Protocol):
    """Whoever owns a lock."""

    def renew_lock(self) -> None:
        """Replace the lock by one that nobody holds."""
        ...


_owners: weakref.WeakSet[Locked] = weakref.WeakSet()
_gate = threading.Lock()
_inside: dict[int, int] = {}
"""How often each thread is where forks wait for it; read and written with the gate held."""


def renew_after_fork(owner: Locked) -> None:
    """Renew the owner's lock in every child process, for as long as the owner lives."""
    _owners.add(owner)


class RenewedLock(_thread.RLock):  # type: ignore[misc]
    """A lock that a thread may take again, and that nobody holds in the child after a fork.

    It is entered by the interpreter's own code: a method written in Python could be ended by an exception of a signal
    handler when it has taken the lock and before the ``with`` statement knows.
    """

    def __init__(self) -> None:
        super().__init__()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """See the module."""
        self._at_fork_reinit()  # type: ignore[attr-defined]


@contextmanager
def forks_wait() -> Iterator[None]:
    """While it lasts, forks that other threads want to make wait."""
    thread, entered = threading.get_ident(), False
    try:
        with _gate:
            entered = True
            _inside[thread] = _inside.get(thread, 0) + 1
        yield
    finally:
        if entered:
            with _gate:
                _inside[thread] = _inside.get(thread, 1) - 1
                if not _inside[thread]:
                    del _inside[thread]


def _before() -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        _gate.acquire()
        if not set(_inside) - {threading.get_ident()} or time.monotonic() > deadline:
            return  # with the gate held: nobody enters until the fork is made
        _gate.release()
        time.sleep(_POLL)


def _in_parent() -> None:
    _gate.release()


def _in_child() -> None:
    global _gate
    _gate = threading.Lock()
    for thread in set(_inside) - {threading.get_ident()}:
        del _inside[thread]
    for owner in list(_owners):
        owner.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
