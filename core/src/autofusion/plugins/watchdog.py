"""Run a plugin's code with a time limit, so that one that hangs is reported and the rest goes on.

The code runs in a thread of its own, since nothing else can be given up on inside a process. What is given up goes on
waiting in the background (a loop in Python is ended; a wait for the network is not), and code that holds the
interpreter's lock cannot be limited at all: only another process could be ended from outside.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

LIMIT = "AUTOFUSION_PLUGIN_SECONDS"
"""Environment variable: how long a plugin's module may take to import, and its hook to answer."""
DEFAULT_SECONDS = 20.0


class HangError(Exception):
    """It did not end in time."""


class _StopError(BaseException):
    """Raised inside a thread that is given up."""


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
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_StopError))
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
