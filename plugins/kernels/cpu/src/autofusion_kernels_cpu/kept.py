"""What is computed from sizes alone, kept for the process up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from autofusion.kernels import renew_after_fork

T = TypeVar("T")

OVERHEAD = 4096
"""Bytes of a key and of the small objects of a value, roughly."""


class Kept(Generic[T]):
    """Values by key, of at most `limit` bytes; what was used least recently goes first. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit, self._bytes = limit, 0
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """A lock that nobody holds: for the start, and for the child after a fork."""
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """The value of `key`, made at first; `size` says how many bytes it has."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
                return found[0]
        value = make()
        nbytes = OVERHEAD + size(value)
        with self._lock:
            if key not in self._values:
                self._values[key] = (value, nbytes)
                self._bytes += nbytes
            while self._bytes > self._limit and len(self._values) > 1:
                self._bytes -= self._values.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._bytes = 0
