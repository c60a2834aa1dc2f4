"""Arrays laid out for a section, which is mapped again as one piece of memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autofusion.ir.shared import is_mapped

_LINE = 64


class ArrayStorage:
    """See ``autofusion.kernels.Storage``: arrays that overlap now will do so in the section."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, np.ndarray]] = {}
        self._size = 0

    def put(self, array: np.ndarray) -> int:
        """Where the first element of ``array`` lies in the section."""
        whole = _owner(array)
        if id(whole) not in self._places:
            address = whole.__array_interface__["data"][0]
            self._size += (address - self._size) % _LINE
            self._places[id(whole)] = self._size, whole
            self._size += whole.nbytes
        start, whole = self._places[id(whole)]
        within: int = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        return start + within

    def parts(self) -> Iterator[bytes | np.ndarray]:
        """The section's content."""
        at = 0
        for start, array in self._places.values():
            yield bytes(start - at)
            yield array
            at = start + array.nbytes


def _owner(array: np.ndarray) -> np.ndarray:
    """The array whose memory has to be saved for this one: itself, if nobody can write to it through another one."""
    if array.flags.c_contiguous and (not array.flags.writeable or is_mapped(array)):
        return array
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base if base.flags.c_contiguous else array
