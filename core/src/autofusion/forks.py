"""Locks and forks: a lock that another thread held when the process forked stays held in the child, for ever.

The thread that would release it does not exist there. What it was about to write is either whole (entries of
dictionaries) or written anew by the next run (arenas), so the child starts with fresh locks.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Locked(Protocol):
    """Whoever owns a lock."""

    def renew_lock(self) -> None:
        """Replace the lock by one that nobody holds."""
        ...


_owners: weakref.WeakSet[Locked] = weakref.WeakSet()


def renew_after_fork(owner: Locked) -> None:
    """Renew the owner's lock in every child process, for as long as the owner lives."""
    _owners.add(owner)


def _renew_all() -> None:
    for owner in list(_owners):
        owner.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
