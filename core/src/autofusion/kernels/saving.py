"""What a kernel pack may do beside running: save assembled segments to a file, and restore them without compiling.

A pack that can has a method ``save_segments(segments, storage) -> Saved | Refusal``, and its package, the module that
its entry point in group ``autofusion.kernels`` names, a function ``restore_segments`` (see ``RestoreSegments``). It is
called without the pack: it should import neither generators nor compilers. Models whose segments cannot be saved are
compiled again from their fused graph when they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from autofusion.kernels.contract import Segment
from autofusion.refusal import Refusal


class Storage(Protocol):
    """Memory that is saved with segments. At load, it is one array of uint8 that is mapped from the file.

    Pages are shared by all processes that load the file until they are written to, and then private to the process.
    """

    def put(self, array: np.ndarray) -> int:
        """Where the first element of ``array`` will be, in bytes from the start.

        What overlaps in memory now will overlap then, and every address keeps its remainder modulo 64. The content is
        the one at the end of saving.
        """
        ...


@dataclass(frozen=True, slots=True)
class Saved:
    """``data`` is plain (JSON): what the segments are; ``code`` is the machine code they need, without addresses."""

    data: Mapping[str, Any]
    code: bytes


class SavingPack(Protocol):
    """The optional part of a kernel pack."""

    def save_segments(self, segments: Sequence[Segment], storage: Storage) -> Saved | Refusal:
        """All segments of the pack in one file, or why they cannot be saved."""
        ...


class RestoreSegments(Protocol):
    """``restore_segments`` of a pack's package."""

    def __call__(
        self, data: Mapping[str, Any], code: np.ndarray, stored: np.ndarray, arenas: Sequence[int]
    ) -> Sequence[Segment]:
        """The segments, in order.

        ``code`` (uint8) may only be copied, ``stored`` is what was put into the storage, ``arenas`` has the address of
        each segment's arena. Raises KernelError if ``data`` is of another version or the machine lacks instructions;
        the content itself is not damaged, and comes from somebody who is trusted.
        """
        ...
