"""The constants of a model, before and after it runs: native code that writes into them harms both sides alike."""

from __future__ import annotations

import hashlib

import numpy as np

from autofusion.ir.graph import Graph


class Constants:
    """Digests of the constants of graphs, taken when they are first looked at."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, np.ndarray, bytes]] = {}

    def look(self, graph: Graph) -> None:
        """Take the digests of the constants of ``graph``, and of its bodies, that are not known yet."""
        for value in graph.constants():
            array = value.const
            if isinstance(array, np.ndarray) and array.dtype.kind != "O" and id(array) not in self._known:
                self._known[id(array)] = (value.name, array, _digest(array))
        for node in graph.nodes:
            for attribute in node.attrs.values():
                if isinstance(attribute, Graph):
                    self.look(attribute)

    def changed(self) -> list[str]:
        """Names of the constants whose bytes are others than when they were first looked at."""
        return sorted({name for name, array, digest in self._known.values() if _digest(array) != digest})


def _digest(array: np.ndarray) -> bytes:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
    return hashlib.blake2b(data, digest_size=16).digest()
