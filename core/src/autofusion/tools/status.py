"""What a command that takes long is doing: one line on standard error, for whoever waits at a terminal.

Nothing is shown for the first seconds, nor where standard error is not a terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 2.0
"""Seconds before anything is shown."""
_EVERY = 0.5
_CLEAR = "\r\x1b[K"
_MOST = 78


class _Line:
    """The line as it stands."""

    def __init__(self) -> None:
        self.text = ""
        self._lock = threading.Lock()
        self._stream: TextIO | None = None
        self._is_shown = False

    def clear(self) -> None:
        """Take the line away, so that something else can be written there."""
        with self._lock:
            if self._is_shown and self._stream is not None:
                self._stream.write(_CLEAR)
                self._stream.flush()
            self._is_shown = False

    def keep_showing(self, stream: TextIO, ended: threading.Event, patience: float) -> None:
        """Show the text and the seconds since the start until ``ended``."""
        start = time.monotonic()
        if ended.wait(patience):
            return
        while True:
            with self._lock:
                self._stream = stream
                seconds = f" ({time.monotonic() - start:.0f} s)"
                shown = self.text if len(self.text) <= _MOST - len(seconds) else self.text[: _MOST - 12] + "..."
                stream.write(f"{_CLEAR}{shown}{seconds}\r")
                stream.flush()
                self._is_shown = True
            if ended.wait(_EVERY):
                break
        self.clear()


_line = _Line()


def say(doing: str) -> None:
    """``doing`` begins now."""
    _line.text = " ".join(doing.split())


def clear() -> None:
    """Take the line away before something is written to the terminal."""
    _line.clear()


@contextmanager
def shown(doing: str, stream: TextIO | None = None, patience: float = PATIENCE) -> Iterator[None]:
    """While it lasts, show what is said, at first ``doing``, on ``stream`` (standard error) if it is a terminal."""
    stream = stream or sys.stderr
    say(doing)
    if stream is None or not stream.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(
        target=_line.keep_showing, args=(stream, ended, patience), name="autofusion-status", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
