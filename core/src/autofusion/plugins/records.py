"""What became of each plugin: one record for every entry point, loaded or not, with the reason."""

from __future__ import annotations

import enum
import logging
import traceback
from dataclasses import dataclass, replace
from pathlib import Path

LOG = logging.getLogger("autofusion.plugins")


class Status(enum.StrEnum):
    """The end that an entry point came to."""

    LOADED = "loaded"
    FAILED = "failed"
    """It raised, or breaks its contract."""
    INCOMPATIBLE = "incompatible"
    """Its distribution does not say that it works with this version of core; nothing of it was imported."""
    CONFLICT = "conflict"
    """Another distribution provides the same name; neither is loaded, so that no one can take another's name."""
    UNPINNED = "unpinned"
    """The lock does not name this version of the distribution."""
    MISSING = "missing"
    """Asked for, by the lock or by AUTOFUSION_PLUGINS, but not installed."""


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """One entry point. ``group`` and ``name`` are ``-`` for a pinned distribution that is not there."""

    group: str
    name: str
    dist: str
    version: str
    status: Status
    detail: str = ""

    def ended(self, status: Status, detail: str) -> PluginRecord:
        """The same entry point with another end."""
        return replace(self, status=status, detail=detail)

    def __str__(self) -> str:
        return f"{self.group} '{self.name}' of {self.dist}=={self.version}: {self.status}: {self.detail}"


def describe(error: BaseException) -> str:
    """``RuntimeError: boom (pack.py:12)``: the error in one line, and the place that raised it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"
