"""Memory plan: an offset in one arena for every buffer, by lifetime.

Buffers with a border are only shared between buffers of the same geometry, so that the zeros around the data,
written once when the arena is made, stay zeros. All others are placed best-fit in the order of their first use,
which also keeps memory that was just written in the cache.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from autofusion.lowering.storage import ALIGNMENT, Root


@dataclass(frozen=True, slots=True)
class Request:
    """Bytes needed from step ``first`` to step ``last``; ``key`` is the geometry of a bordered buffer, otherwise
    None.
    """

    nbytes: int
    first: int
    last: int
    key: object = None


def request(root: Root) -> Request:
    """The request of a buffer."""
    return Request(root.nbytes, root.first, root.last, root.geometry if any(root.border) else None)


def place(requests: Sequence[Request]) -> tuple[list[int], int]:
    """Offsets of the requests, and the arena's size in bytes. Requests that overlap in time never overlap in memory."""
    offsets = [0] * len(requests)
    top = 0
    pools: dict[object, list[tuple[int, int]]] = defaultdict(list)
    order = sorted(range(len(requests)), key=lambda i: (requests[i].first, -requests[i].nbytes))
    for index in order:
        wanted = requests[index]
        if wanted.key is None:
            continue
        slots = pools[wanted.key]
        for number, (busy_until, offset) in enumerate(slots):
            if busy_until < wanted.first:
                slots[number] = (wanted.last, offset)
                offsets[index] = offset
                break
        else:
            slots.append((wanted.last, top))
            offsets[index] = top
            top += wanted.nbytes
    heap = _Heap(top)
    ends: list[tuple[int, int]] = []
    for index in order:
        wanted = requests[index]
        if wanted.key is not None:
            continue
        while ends and ends[0][0] < wanted.first:
            _, done = ends.pop(0)
            heap.release(offsets[done], requests[done].nbytes)
        offsets[index] = heap.take(wanted.nbytes)
        bisect.insort(ends, (wanted.last, index))
    return offsets, heap.high


class _Heap:
    """Best-fit allocation over [base, infinity) with coalescing gaps."""

    def __init__(self, base: int) -> None:
        self._gaps: list[tuple[int, int]] = []
        self._top = base
        self.high = base

    def take(self, nbytes: int) -> int:
        nbytes = -(-nbytes // ALIGNMENT) * ALIGNMENT
        fitting = [(size, offset) for offset, size in self._gaps if size >= nbytes]
        if fitting:
            size, offset = min(fitting)
            self._gaps.remove((offset, size))
            if size > nbytes:
                bisect.insort(self._gaps, (offset + nbytes, size - nbytes))
            return offset
        offset = self._top
        if self._gaps and sum(self._gaps[-1]) == self._top:
            offset, _ = self._gaps.pop()
        self._top = offset + nbytes
        self.high = max(self.high, self._top)
        return offset

    def release(self, offset: int, nbytes: int) -> None:
        nbytes = -(-nbytes // ALIGNMENT) * ALIGNMENT
        position = bisect.bisect(self._gaps, (offset, 0))
        if position < len(self._gaps) and self._gaps[position][0] == offset + nbytes:
            nbytes += self._gaps.pop(position)[1]
        if position and sum(self._gaps[position - 1]) == offset:
            position -= 1
            offset, size = self._gaps.pop(position)
            nbytes += size
        if offset + nbytes == self._top:
            self._top = offset
        else:
            self._gaps.insert(position, (offset, nbytes))
