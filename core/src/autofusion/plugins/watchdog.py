"""Run a plugin's code with a time limit, so that one that hangs is reported and the rest goes on.

What runs once runs in a thread of its own (``within``), since nothing else can be given up on inside a process. What is
given up goes on waiting in the background (a loop in Python is ended; a wait for the network is not), and code that
holds the interpreter's lock cannot be limited at all: only another process could be ended from outside.

What is called thousands of times (rules, offers, kernels) stays in its thread, and a ``Watch`` ends its loops from
outside; code that is not Python is not interrupted, and is given up on when it returns.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import TypeVar

from autofusion.faults import Overrun
from autofusion.forks import renew_after_fork

T = TypeVar("T")

LIMIT = "AUTOFUSION_PLUGIN_SECONDS"
"""Environment variable: how long a plugin's module may take to import, and its hook to answer."""
DEFAULT_SECONDS = 20.0


class HangError(Exception):
    """It did not end in time."""


def limit(environ: Mapping[str, str] | None = None) -> float:
    """The limit in seconds; a value that is not a number counts as unset."""
    try:
        return float((os.environ if environ is None else environ).get(LIMIT, "") or DEFAULT_SECONDS)
    except ValueError:
        return DEFAULT_SECONDS


def within(seconds: float, function: Callable[[], T]) -> T:
    """What ``function`` returns, or raises; HangError, saying where it was, if it has not ended by then."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="autofusion-plugin", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        place = _place(sys._current_frames().get(thread.ident or 0))
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Overrun))
        raise HangError(f"it did not end within {seconds:g} s{place}; {LIMIT} sets the limit")
    if errors:
        raise errors[0]
    return results[0]


def _place(frame: FrameType | None) -> str:
    """`` (at pack.py:3)``: the innermost line of a file that is not part of Python itself."""
    library = os.path.dirname(os.__file__)
    while frame is not None:
        name = frame.f_code.co_filename
        inside = name.startswith(library) and "site-packages" not in name
        if not name.startswith("<frozen") and not inside and name != __file__:
            return f" (at {Path(name).name}:{frame.f_lineno})"
        frame = frame.f_back
    return ""


_EVERY = 0.25
"""Seconds between two looks of the thread that watches the others, at most."""
_NEVER = float("inf")


class Watch:
    """A limit of time on what its thread, the one that makes it, calls between ``begin`` and ``end``.

    Whatever takes longer is ended by an exception that its own handlers of ``Exception`` do not catch, and that
    ``settle`` makes a HangError. To be used as::

        watch.begin()
        try:
            ...
            watch.end()
        except BaseException as error:
            watch.settle(error)
            raise
    """

    __slots__ = ("__weakref__", "_ident", "_lock", "_place", "deadline", "seconds")

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = limit() if seconds is None else seconds
        self._ident = threading.get_ident()
        self._lock = threading.Lock()
        self._place: str | None = None
        self.deadline = _NEVER
        _monitor.add(self)

    def begin(self) -> None:
        """The limit starts now."""
        self.deadline = time.monotonic() + self.seconds

    def end(self) -> None:
        """What was watched has ended; take back an exception that is still on its way."""
        with self._lock:
            self.deadline = _NEVER
            if self._place is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._ident), None)

    def settle(self, error: BaseException) -> None:
        """End the limit; raise HangError if ``error`` is what ended the code."""
        self.end()
        place, self._place = self._place, None
        if isinstance(error, Overrun):
            raise HangError(f"it did not end within {self.seconds:g} s{place or ''}; {LIMIT} sets the limit") from None

    def check(self, now: float) -> None:
        """End what runs, if its time is over; for the thread that watches."""
        if now < self.deadline:
            return
        with self._lock:
            if now < self.deadline:
                return
            self._place = _place(sys._current_frames().get(self._ident))
            self.deadline = now + _EVERY  # again, in case that it goes on
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._ident), ctypes.py_object(Overrun))


class _Spare(threading.local):
    """Watches that nothing uses at the moment, of each thread."""

    def __init__(self) -> None:
        self.watches: list[Watch] = []


_spare = _Spare()


def limited(call: Callable[[], T], seconds: float) -> T:
    """What ``call`` returns, in this thread; HangError, saying where it was, if it takes longer than ``seconds``."""
    watch = _spare.watches.pop() if _spare.watches else Watch()
    watch.seconds = seconds
    watch.begin()
    try:
        result = call()
        watch.end()
    except BaseException as error:
        watch.settle(error)
        raise
    finally:
        _spare.watches.append(watch)
    return result


class _Monitor:
    """The thread that watches, started with the first watch, in every process anew."""

    def __init__(self) -> None:
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, watch: Watch) -> None:
        """Look after ``watch`` for as long as it is used."""
        with self._lock:
            self._watches.add(watch)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="autofusion-watch", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                watches = list(self._watches)
                if not watches:
                    self._thread = None
                    return
            for watch in watches:
                watch.check(time.monotonic())
            del watches
            time.sleep(_EVERY)

    def renew_lock(self) -> None:
        """In a child process: no thread, and a lock that nobody holds."""
        self._lock, self._thread = threading.Lock(), None


_monitor = _Monitor()
renew_after_fork(_monitor)
