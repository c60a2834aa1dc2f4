"""Files are written beside the old ones and then renamed: a full disk, an error or a kill leaves the old file whole."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path to write to; it takes the place of ``path`` at the end, and goes if an exception comes.

    The target of a symbolic link is replaced, not the link; what is not a plain file (a device, a pipe) is written to
    in place. An existing file's mode is kept. Raises OSError that names ``path``, also for a full disk.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            yield path
            return
        handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            part.chmod(stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
            with part.open("rb+") as file:
                os.fsync(file.fileno())  # some file systems only say here that there was no room
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Make ``data`` the content of the file ``path``, all of it or nothing."""
    with replacing(path) as part:
        part.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Make ``text``, in UTF-8, the content of the file ``path``, all of it or nothing.

    What came from file names that are not UTF-8 is written as escapes.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
