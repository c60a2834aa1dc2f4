"""Constants with the same content, once in memory: sessions of one file share their weights, and what is made of them.

Only what nobody can write to any more is shared: what frontends read and what folding computes, never a user's array.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import numpy as np

from autofusion.forks import renew_after_fork
from autofusion.ir.graph import Graph, Value

SHARED_BYTES = 1 << 14
"""Smaller arrays are not looked for."""
_SAMPLES = 256
_PIECE = 1 << 20


class _Arrays:
    """Arrays that are in use, found by samples of their bytes."""

    def __init__(self) -> None:
        self._arrays: weakref.WeakValueDictionary[tuple[object, ...], np.ndarray] = weakref.WeakValueDictionary()
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """A lock that nobody holds; see ``forks``."""
        self._lock = threading.Lock()

    def find(self, array: np.ndarray, data: np.ndarray) -> np.ndarray:
        if is_mapped(array):  # what the file of another mapping says may change
            content: tuple[object, ...] = (array.__array_interface__["data"],)
        else:
            content = (data[:: max(data.size // _SAMPLES, 1)].tobytes(), data[-8:].tobytes())
        key = (array.dtype, array.shape, *content)
        with self._lock:
            found = self._arrays.get(key)
            if found is None:
                self._arrays[key] = array
                return array
        return found if found is array or _equal(_bytes(found), data) else array


_arrays = _Arrays()


def share(array: np.ndarray) -> np.ndarray:
    """An array of the same type, shape and bytes that is in use already, or else ``array``, from now on to be found.

    Nobody may write to ``array`` any more. Arrays that are mapped are only shared where they lie in one mapping.
    """
    if array.nbytes < SHARED_BYTES or array.dtype.hasobject or not array.flags.c_contiguous:
        return array
    return _arrays.find(array, _bytes(array))


def is_mapped(array: np.ndarray) -> bool:
    """True for an array that is mapped from a file."""
    base: object = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return isinstance(base, np.memmap)


def share_constants(graph: Graph, known: Graph | None = None) -> None:
    """Share the constants of ``graph`` and of its bodies, but for those that ``known`` has."""
    before = set() if known is None else {id(value.const) for value in constants(known)}
    for value in constants(graph):
        if value.const is not None and id(value.const) not in before:
            value.const = share(value.const)


def constants(graph: Graph) -> Iterator[Value]:
    """The constants of a graph and of the bodies of its nodes."""
    yield from graph.constants()
    for node in graph.nodes:
        for body in node.attrs.values():
            if isinstance(body, Graph):
                yield from constants(body)


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.__array_interface__["data"] == b.__array_interface__["data"]:
        return True
    return all(bool((a[i : i + _PIECE] == b[i : i + _PIECE]).all()) for i in range(0, a.size, _PIECE))
