"""What machine code could only take note of, looked at after each run: as data, so that it can be saved with a program.

A note is a small array that a kernel writes to; whoever reads it resets it, so that no run sees the note of another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autofusion.kernels import InputError, NotFinite


@dataclass(frozen=True, slots=True, eq=False)
class IndexCheck:
    """Raises InputError once an element of `note` (int64) is not `nothing`: the last, between its texts in `told`."""

    note: np.ndarray
    nothing: int
    told: tuple[tuple[str, str], ...]

    def __call__(self) -> None:
        found = self.note.tolist()
        if any(index != self.nothing for index in found):
            self.note[...] = self.nothing
            index, (before, after) = [x for x in zip(found, self.told, strict=True) if x[0] != self.nothing][-1]
            raise InputError(f"{before}{index}{after}")


@dataclass(frozen=True, slots=True, eq=False)
class FiniteCheck:
    """Raises NotFinite once an element of `note` (float32, one vector for each thread) is NaN."""

    note: np.ndarray

    def __call__(self) -> None:
        if np.isnan(self.note).any():
            self.note[...] = 0.0
            raise NotFinite


Check = IndexCheck | FiniteCheck
