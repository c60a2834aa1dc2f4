"""The folders that machine code is kept in between processes.

`$AUTOFUSION_CACHE` (or `~/.cache/autofusion`) may name several folders, separated by `os.pathsep`: objects are written
to the first; the others are only read, for caches that were filled when an image was built. Machine code is run as it
is found, so nothing is read that another user (but root) could have written: a folder or a file must belong to this
user or to root, and neither its group nor others may write to it.

The first folder is kept below `$AUTOFUSION_CACHE_BYTES` (256 MiB): what was used least recently goes first. A cache
that cannot be used costs time, never correctness.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from autofusion.kernels import CacheFolder, OptionError

ENVIRONMENT = "AUTOFUSION_CACHE"
LIMIT_ENVIRONMENT = "AUTOFUSION_CACHE_BYTES"
DEFAULT_LIMIT = 256 << 20
_SUFFIX = ".o"
_DIGEST = 32
"""Bytes of the digest in front of an object: LLVM aborts the process on some damaged ones."""
_KEPT = 0.75
"""Share of the limit that is left when files are evicted, so that this is not done at every write."""
_STALE_SECONDS = 3600.0
"""Files are marked as used no more often than this, and unfinished ones are removed after it."""


def cache_folders() -> tuple[Path, ...]:
    """Where objects are kept: written to the first folder, read from all."""
    roots = [Path(root) for root in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if root]
    if not roots:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        # A user without a home, as in some containers, keeps nothing.
        roots = [] if base.startswith("~") else [Path(base) / "autofusion"]
    return tuple(root / "kernels" for root in roots)


def cache_limit() -> int:
    """Bytes that the first folder may hold. Raises OptionError for what is not a whole number of bytes."""
    text = os.environ.get(LIMIT_ENVIRONMENT, "")
    if not text:
        return DEFAULT_LIMIT
    if not text.isdecimal():
        raise OptionError(f"environment variable {LIMIT_ENVIRONMENT}: expected a number of bytes, found '{text}'")
    return int(text)


class ObjectCache:
    """Objects by name in `folders`, of which the first is written to and kept below `limit` bytes."""

    def __init__(self, folders: Sequence[Path], limit: int = DEFAULT_LIMIT) -> None:
        self._folders = folders
        self._limit = limit
        self._usable: dict[Path, bool] = {}
        self._size: int | None = None

    def read(self, name: str) -> bytes | None:
        """The object called `name` from the first folder that has it whole, or None."""
        for folder in self._folders:
            if self._is_usable(folder):
                code = _read(folder / (name + _SUFFIX), mark=folder is self._folders[0])
                if code is not None:
                    return code
        return None

    def write(self, name: str, code: bytes) -> None:
        """Keep an object, if the first folder can be written to."""
        if not self._folders:
            return
        folder = self._folders[0]
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_usable(folder):
                return
            handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(code).digest() + code)
                # A rename is atomic: another process sees no file or a whole one.
                os.replace(temporary, folder / (name + _SUFFIX))
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                return
            self._evict(folder, len(code) + _DIGEST)

    def usage(self) -> list[CacheFolder]:
        """Every folder as it is now."""
        found = []
        for folder in self._folders:
            files = list(_kernel_files(folder))
            problem = _problem(folder) if folder.exists() else None
            found.append(
                CacheFolder(folder, len(files), sum(f[1] for f in files), folder is self._folders[0], problem or "")
            )
        return found

    def clean(self) -> None:
        """Remove all objects from the first folder."""
        for _, _, path in _kernel_files(self._folders[0]):
            os.unlink(path)
        self._size = None

    def share(self) -> None:
        """Let every user read the first folder and what is in it; only its owner can write to it, as ever."""
        folder = self._folders[0]
        for _, _, path in _kernel_files(folder):
            os.chmod(path, 0o644)
        for each in (folder, folder.parent):
            os.chmod(each, os.stat(each).st_mode | 0o755)

    def _is_usable(self, folder: Path) -> bool:
        """True if nobody else can have put a file there. A folder that fails is named in a warning, once."""
        if folder not in self._usable:
            try:
                problem = _problem(folder)
            except OSError:
                return False
            self._usable[folder] = problem is None
            if problem:
                warnings.warn(
                    f"compiled kernels are not kept in '{folder}': it {problem}; expected a folder of this user's (or "
                    f"root's) that nobody else can write to: change its owner or mode, or set {ENVIRONMENT}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return self._usable[folder]

    def _evict(self, folder: Path, added: int) -> None:
        """Remove what was used least recently, if the folder holds more than it may."""
        if self._size is not None and self._size + added <= self._limit:
            self._size += added
            return
        files = list(_kernel_files(folder, remove_stale=True))
        size = sum(file[1] for file in files)
        if size > self._limit:
            # Not the newest one, whatever the limit: it was written for a kernel that is about to run.
            for _, nbytes, path in sorted(files)[:-1]:
                if size <= self._limit * _KEPT:
                    break
                with contextlib.suppress(OSError):
                    os.unlink(path)
                size -= nbytes
        self._size = size


def _kernel_files(folder: Path, remove_stale: bool = False) -> Iterator[tuple[float, int, str]]:
    """When each object was last used, its size and its path; files that nobody finished can be removed on the way."""
    now = time.time()
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            if entry.name.endswith(_SUFFIX):
                yield found.st_mtime, found.st_size, entry.path
            elif remove_stale and entry.name.endswith(".tmp") and now - found.st_mtime > _STALE_SECONDS:
                os.unlink(entry.path)


def _problem(folder: Path) -> str | None:
    """Why the folder is not used, or None; raise OSError if it cannot be looked at."""
    found = os.stat(folder)
    return _foreign(found) if stat.S_ISDIR(found.st_mode) else "is not a folder"


def _read(path: Path, mark: bool) -> bytes | None:
    """The object in a file, or None unless the file is this user's and whole; with `mark`, it counts as used now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or _foreign(found):
            return None
        data = file.read()
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        return None
    if mark and time.time() - found.st_mtime > _STALE_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(path)
    return data[_DIGEST:]


def _foreign(found: os.stat_result) -> str | None:
    """Why somebody else may have written a file or a folder, or None."""
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written to by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return None
