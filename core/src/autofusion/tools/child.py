"""Run a job in a child process: whatever it does, crash or hang, the parent goes on and can say what happened.

A job is a function ``job(request, progress) -> result`` of JSON data. It says what it is about to do by calling
``progress``; the time limit is for the longest silence, so that a long job is fine and a hung one is not. What it was
doing last is the place to look when it dies.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofusion.errors import AutofusionError, OptionError
from autofusion.tools import status

Job = Callable[[dict[str, Any], "Progress"], Any]

OK, ERROR, CRASH, HANG = "ok", "error", "crash", "hang"
_POLL = 0.05
_LOG_TAIL = 4000


class Progress:
    """Says what is being done, and keeps what is known so far; both survive the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "progress.txt").open("a", encoding="utf-8")

    def __call__(self, doing: str) -> None:
        """``doing`` begins now."""
        self._log.write(doing.replace("\n", " ") + "\n")
        self._log.flush()

    def keep(self, result: Any) -> None:
        """``result`` stands if the job does not get any further."""
        part = self._folder / "partial.tmp"
        part.write_text(dump(result), encoding="utf-8")
        part.replace(self._folder / "result.json")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended: ``ok``; ``error`` (it raised); ``crash`` (the process died); ``hang`` (it was stopped).

    ``detail`` is the error's message or the signal, ``doing`` what it said it was doing, ``result`` the last that it
    returned or kept, ``log`` the end of what it printed.
    """

    status: str
    detail: str
    doing: str
    result: Any
    seconds: float
    log: str
    error: str = ""
    """Class of the error, for ``error``."""


def at_least(least: float, **options: float) -> None:
    """Raise OptionError for the first of ``options`` that is less than ``least`` (or, for 0, not more than it)."""
    for name, value in options.items():
        if value < least or (least == 0 and value == 0):
            raise OptionError(f"'{name}' must be {f'at least {least:g}' if least else 'more than 0'}, found {value:g}")


def run_job(job: str, request: Mapping[str, Any], *, timeout: float, environ: Mapping[str, str] | None = None) -> Ended:
    """Run ``job`` (``module:function``) in a child process; ``timeout`` is the longest silence in seconds."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="autofusion-") as name:
        folder = Path(name)
        (folder / "request.json").write_text(dump(request), encoding="utf-8")
        progress = folder / "progress.txt"
        progress.touch()
        with (folder / "log.txt").open("wb") as log:
            child = subprocess.Popen(
                # -P: modules of the current folder must not take the place of installed ones.
                [sys.executable, "-P", "-X", "faulthandler", "-m", "autofusion.tools.child", job, name],
                stdin=subprocess.PIPE,  # it ends when this process does, whatever that dies of
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environ or {})},
                start_new_session=True,  # what the job itself starts ends with it
            )
            hung = _wait(child, progress, timeout)
        lines = progress.read_text("utf-8").splitlines()
        log_text = (folder / "log.txt").read_text("utf-8", "replace")[-_LOG_TAIL:]
        result = _read(folder / "result.json")
        failure = _read(folder / "error.json")
    seconds = time.monotonic() - start
    doing = lines[-1] if lines else "starting"
    if hung:
        return Ended(HANG, f"nothing happened for {timeout:g} s", doing, result, seconds, log_text)
    if failure is not None:
        return Ended(ERROR, failure["message"], doing, result, seconds, log_text, failure["class"])
    if child.returncode != 0:
        return Ended(CRASH, _how(child.returncode), doing, result, seconds, log_text)
    return Ended(OK, "", doing, result, seconds, log_text)


def _wait(child: subprocess.Popen[bytes], progress: Path, timeout: float) -> bool:
    """Wait for the end; True if the child was stopped because it made no progress."""
    last, size = time.monotonic(), -1
    try:
        while True:
            try:
                child.wait(_POLL)
                return False
            except subprocess.TimeoutExpired:
                now = progress.stat().st_size
                if now != size:
                    last, size = time.monotonic(), now
                    status.say(_last_line(progress))
                elif time.monotonic() - last > timeout:
                    return True
    finally:
        _end_group(child)
        if child.stdin is not None:
            child.stdin.close()


def _last_line(progress: Path) -> str:
    with progress.open("rb") as file:
        file.seek(max(progress.stat().st_size - _LOG_TAIL, 0))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return lines[-1] if lines else "starting"


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """End the child and all that it started."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    elif child.poll() is None:
        child.kill()
    child.wait()


def _how(code: int) -> str:
    if code >= 0:
        return f"the process ended with code {code}"
    try:
        return f"the process died of {signal.Signals(-code).name}"
    except ValueError:
        return f"the process died of signal {-code}"


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def dump(data: Any) -> str:
    """JSON of plain data, paths, sets and numbers of NumPy; infinities and NaN as JSON extends them."""
    return json.dumps(data, default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


def _end_with_parent() -> None:
    """Watch standard input, which ends with the parent, from a thread, and end everything that the job has started."""
    watched = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def watch() -> None:
        while os.read(watched, 1):
            pass
        if hasattr(os, "killpg"):
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name="autofusion-parent", daemon=True).start()


def main() -> None:
    """The child's side: ``python -m autofusion.tools.child MODULE:FUNCTION FOLDER``."""
    module, _, name = sys.argv[1].partition(":")
    folder = Path(sys.argv[2])
    progress = Progress(folder)
    _end_with_parent()
    sys.path.append(os.getcwd())  # metrics are often written there
    try:
        job: Job = getattr(importlib.import_module(module), name)
        progress.keep(job(json.loads((folder / "request.json").read_text("utf-8")), progress))
    except Exception as error:
        ours = isinstance(error, AutofusionError)
        if not ours:
            traceback.print_exc()
        message = str(error) if ours else f"{type(error).__name__}: {error}"
        failure = {"class": type(error).__name__, "message": message}
        (folder / "error.json").write_text(json.dumps(failure), encoding="utf-8")


if __name__ == "__main__":
    main()
