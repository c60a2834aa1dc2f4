"""Weights that are mapped from files: read when they are packed, and let go of afterwards.

Pages of a mapping only count as this process's memory once they are touched, and the system can drop them at any time.
They show what the file has *now*, though, and reading past the end of a truncated file kills the process. So what runs
never reads a mapping: constants that kernels use where they lie are copied (``resident``). Mappings are only read to
make plans, after ``require_unchanged``. A file that is replaced by another (renamed over, deleted) stays as it was.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autofusion.errors import ModelError
from autofusion.forks import renew_after_fork
from autofusion.ir.shared import share

_LARGE = 1 << 20


@dataclass(frozen=True, slots=True)
class _State:
    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, descriptor: int) -> _State:
        found = os.fstat(descriptor)
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True, slots=True, eq=False)
class MappedFile:
    """A mapped file as it was when it was mapped."""

    path: Path
    descriptor: int
    state: _State
    pages: mmap.mmap

    def require_unchanged(self) -> None:
        """Raise ModelError if the file was written to since it was mapped."""
        if _State.of(self.descriptor) != self.state:
            raise ModelError(
                f"'{self.path}' was overwritten while a session was using its weights, so no further plan can be made "
                "of them: compile the model again; to replace a model that is in use, write the new one beside it and "
                "rename it"
            )

    def release(self) -> None:
        """Let go of the pages that were read; they are read again when needed."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)


class _Files:
    """The mapped files of this process by their mapping, which lives as long as an array that looks at it."""

    def __init__(self) -> None:
        self._by_map: dict[int, MappedFile] = {}
        self._by_state: dict[_State, weakref.ref[np.memmap]] = {}
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """A lock that nobody holds; see ``forks``. The collector may run ``_forget`` under it."""
        self._lock = threading.RLock()

    def map(self, path: Path) -> np.memmap:
        with self._lock:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
            try:
                state = _State.of(descriptor)
                known = self._by_state.get(state)
                whole = known() if known is not None else None
                if whole is not None:
                    os.close(descriptor)
                    return whole
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    whole = np.memmap(file, np.uint8, "r")
            except BaseException:
                os.close(descriptor)
                raise
            pages: mmap.mmap = whole._mmap  # type: ignore[attr-defined]
            self._by_map[id(whole)] = MappedFile(path, descriptor, state, pages)
            self._by_state[state] = weakref.ref(whole)
            weakref.finalize(whole, self._forget, id(whole), state).atexit = False
            return whole

    def _forget(self, key: int, state: _State) -> None:
        with self._lock:
            os.close(self._by_map.pop(key).descriptor)
            known = self._by_state.get(state)
            if known is not None and known() is None:
                del self._by_state[state]

    def find(self, array: np.ndarray) -> MappedFile | None:
        base = array.base
        while isinstance(base, np.ndarray):
            if isinstance(base, np.memmap) and id(base) in self._by_map:
                return self._by_map[id(base)]
            base = base.base
        return None


_files = _Files()


def map_file(path: Path, offset: int, length: int) -> np.ndarray:
    """``length`` bytes of the file from ``offset``, as a read-only array of uint8; a file is mapped once.

    Raises OSError if the file cannot be read or mapped, and ValueError if it has fewer bytes.
    """
    whole = _files.map(path)
    if offset < 0 or length < 0 or offset + length > whole.size:
        raise ValueError(f"expected {length} bytes from {offset}, found a file of {whole.size} bytes")
    return np.asarray(whole[offset : offset + length])


def mapped_files(arrays: Iterable[np.ndarray]) -> list[MappedFile]:
    """The files that the arrays are mapped from."""
    found = (_files.find(array) for array in arrays)
    return list({id(file): file for file in found if file is not None}.values())


def resident(array: np.ndarray) -> np.ndarray:
    """The array itself, or a copy of one that is mapped: for whoever reads it while a model runs."""
    if _files.find(array) is None:
        return array
    copy = np.array(array)
    copy.flags.writeable = False
    return share(copy)


def let_go(array: np.ndarray) -> None:
    """Release the pages of the file that a large array is mapped from, if it is."""
    file = _files.find(array) if array.nbytes >= _LARGE else None
    if file is not None:
        file.release()


@contextlib.contextmanager
def reading(files: Iterable[MappedFile]) -> Iterator[None]:
    """While it lasts, the files are read: they must be as they were, and their pages are let go of afterwards."""
    for file in files:
        file.require_unchanged()
    try:
        yield
    finally:
        for file in files:
            file.release()
