"""What a pack that keeps compiled kernels on disk says of them, for ``autofusion cache``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder with compiled kernels, as it is now.

    ``is_first``: new kernels are written there, the other folders are only read. ``problem`` says why the folder is not
    used (somebody else could write to it), or is empty.
    """

    path: Path
    kernels: int
    nbytes: int
    is_first: bool
    problem: str = ""


@runtime_checkable
class CachingPack(Protocol):
    """A kernel pack that keeps compiled kernels on disk, for the next process."""

    def cache_folders(self) -> Sequence[CacheFolder]:
        """The folders, in the order in which they are looked at."""
        ...

    def clean_cache(self) -> None:
        """Remove all kernels from the first folder. Raise OSError if that is not possible."""
        ...

    def share_cache(self) -> None:
        """Let every user read the first folder. Raise OSError if that is not possible."""
        ...

    def kernel_counts(self) -> tuple[int, int]:
        """How many kernels this process has compiled, and how many it has found in the cache."""
        ...
