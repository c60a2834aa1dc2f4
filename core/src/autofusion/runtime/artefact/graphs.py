"""Graphs in an artefact: their text, and one section for the data of all large constants."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from autofusion.errors import ModelError
from autofusion.ir.graph import Graph
from autofusion.ir.literals import FULL, SeededConstants, digest
from autofusion.ir.shared import constants
from autofusion.ir.text import from_text, to_text
from autofusion.ir.types import TensorType
from autofusion.ir.verify import verify

_LINE = 64


class Constants:
    """The constants of graphs, each once. Digests in the text are short, so two of one digest are refused."""

    def __init__(self) -> None:
        self._found: dict[str, np.ndarray] = {}
        self._ids: dict[int, str] = {}

    def text(self, graph: Graph) -> str:
        """The graph's text, its constants taken down."""
        for value in graph.values():
            if value.default is not None:
                self._add(value.default)
        for value in constants(graph):
            if value.const is not None:
                self._add(value.const)
        for node in _nodes(graph):
            for attribute in node.attrs.values():
                if isinstance(attribute, np.ndarray):
                    self._add(attribute)
        return to_text(graph, with_names=True)

    def _add(self, array: np.ndarray) -> None:
        if array.size <= FULL or id(array) in self._ids:
            return
        name = self._ids[id(array)] = digest(array)
        known = self._found.setdefault(name, array)
        if known is not array and _data(known) != _data(array):
            raise ModelError(f"two constants of the model have the digest {name}: it cannot be saved")

    def table(self) -> dict[str, Any]:
        """Digest -> where its data is: offset and length in bytes."""
        found, at = {}, 0
        for name, array in self._found.items():
            data = _data(array)
            found[name] = [at, len(data)]
            at += -(-len(data) // _LINE) * _LINE
        return found

    def parts(self) -> Iterator[bytes | np.ndarray]:
        """The section's content."""
        for array in self._found.values():
            data = _data(array)
            yield data
            yield bytes(-len(data) % _LINE)


def _nodes(graph: Graph) -> Iterator[Any]:
    for node in graph.nodes:
        yield node
        for body in node.attrs.values():
            if isinstance(body, Graph):
                yield from _nodes(body)


def _data(array: np.ndarray) -> bytes:
    if array.dtype.kind == "O":
        return json.dumps([str(x) for x in array.reshape(-1)]).encode()
    return array.tobytes()


class _Stored(SeededConstants):
    """Finds the data of a digest in a section."""

    def __init__(self, table: Mapping[str, Any], section: np.ndarray) -> None:
        super().__init__()
        self._table = table
        self._memory = section.view()
        self._memory.flags.writeable = False

    def make(self, wanted: str, type_: TensorType) -> np.ndarray:
        """The data of ``wanted`` as ``type_``; raises ValueError if there is none, or of another size."""
        if wanted not in self._table:
            raise ValueError(f"the file has no data for digest {wanted}")
        at, length = self._table[wanted]
        data = self._memory[at : at + length]
        if type_.dtype.kind == "O":
            return np.array(json.loads(bytes(data)), object).reshape(type_.static_shape)
        return data.view(type_.dtype).reshape(type_.static_shape)


def read(text: str, table: Mapping[str, Any], section: np.ndarray) -> Graph:
    """The graph of a text, verified; its constants lie in ``section``, read-only."""
    graph = from_text(text, _Stored(table, section))
    verify(graph)
    return graph
