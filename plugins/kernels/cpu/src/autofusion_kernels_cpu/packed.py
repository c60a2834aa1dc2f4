"""Packed weights: made once for the sessions that have the same constant, and freed with the last of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from autofusion.ir.mapped import let_go
from autofusion.kernels import renew_after_fork

T = TypeVar("T")


class _Entry:
    """What was made of ``source``, which is kept with it: its id, part of the key, stays its own."""

    __slots__ = ("__weakref__", "made", "source")

    def __init__(self, source: np.ndarray | None, made: Any) -> None:
        self.source, self.made = source, made


class _Entries:
    """The entries of all sessions, for as long as one of them has them. Thread-safe."""

    def __init__(self) -> None:
        self._entries: weakref.WeakValueDictionary[Hashable, _Entry] = weakref.WeakValueDictionary()
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """A lock that nobody holds: for the start, and for the child after a fork."""
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> _Entry | None:
        with self._lock:
            return self._entries.get(key)

    def add(self, key: Hashable, entry: _Entry) -> _Entry:
        """The entry of ``key``: this one, unless another thread was faster."""
        with self._lock:
            return self._entries.setdefault(key, entry)


_entries = _Entries()


def packed(
    cache: dict[Any, Any], name: str, source: np.ndarray | None, how: tuple[Any, ...], make: Callable[[], T]
) -> T:
    """What ``make`` makes of ``source``; ``name`` and ``how`` say all that it depends on besides the array.

    Kept in ``cache``, the session's, and shared with sessions whose constant is the same array: nobody may write to it.
    """
    key = (name, id(source), *how)
    entry = cache.get(key)
    if entry is None:
        entry = _entries.get(key)
        if entry is None:
            entry = _entries.add(key, _Entry(source, make()))
            if source is not None:
                let_go(source)
        cache[key] = entry
    made: T = entry.made
    return made
