"""Plugins that keep their contracts, to break one thing at a time in tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind

TARGET = Target("generic", 4, 1, 1e10, 1 << 15, 1 << 19, 1 << 23, 1e10, 1e10, 1e10, 1e9)


class FakeFrontend:
    version = "1"

    def __init__(self, name: str, suffixes: Sequence[str], magic: bytes | None = None) -> None:
        self.name = name
        self.suffixes = suffixes
        self.magic = magic

    def recognises(self, path: Path) -> bool:
        if self.magic is None:
            raise OSError("chokes on everything")
        return path.is_file() and path.read_bytes().startswith(self.magic)

    def load(self, path: Path, options: Any) -> Any:
        raise NotImplementedError

    def reference(self, path: Path, options: Any) -> Any:
        raise NotImplementedError


class FakePack:
    version = "1"
    kinds: tuple[FusedKind, ...] = ()
    blocks: Sequence[int] = ()
    launch_seconds = 1e-6

    def __init__(self, name: str, *, is_reference: bool = False) -> None:
        self.name = name
        self.is_reference = is_reference

    def offer(self, *_: Any) -> Any:
        raise NotImplementedError

    reorder = assemble = offer
