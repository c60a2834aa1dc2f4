"""What a frontend provides: model files in, graphs out, and the framework itself as the reference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from autofusion.ir.graph import Graph

Reference = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]

Converter = Callable[[Any], Any]
"""From a frontend's ``Call`` to what its operator computes: usually an IR value, or a sequence of them."""


class Converters(Protocol):
    """Converters that other packages add to a frontend, by operator."""

    @property
    def names(self) -> Collection[str]:
        """The operators that have one; nothing is imported for it."""
        ...

    def find(self, operator: str) -> Converter | None:
        """The converter for ``operator``; None if there is none, or it cannot be used."""
        ...

    def failure(self, operator: str) -> str:
        """Why the converter for ``operator`` cannot be used; empty if it can, or if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the user may say about a model: which values are its inputs and outputs, and a key for encrypted files.

    ``signature`` chooses among several of a model that has them. ``shapes`` (input name -> shape) are those that the
    model will be compiled for first: a frontend may take the rank of an input from there where the file leaves it open.
    ``converters`` are those that installed packages add to the frontend, if any.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    key: bytes | None = None
    signature: str | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict, hash=False)
    converters: Converters | None = field(default=None, compare=False)

    @classmethod
    def of(cls, settings: Mapping[str, Any], converters: Converters | None = None) -> LoadOptions:
        """Those among keywords of ``autofusion.compile``, and what packages add to the frontend."""
        return cls(
            tuple(settings.get("inputs") or ()),
            tuple(settings.get("outputs") or ()),
            settings.get("key"),
            settings.get("signature"),
            dict(settings.get("shapes") or {}),
            converters,
        )


class Frontend(Protocol):
    """Loads models of one format.

    ``load`` returns a graph in the IR's operators (older operator versions are upgraded, layouts made explicit,
    captures of subgraphs made operands), with every node's ``origin`` set to its source names; it raises
    ModelError (naming file, node, what was expected) for anything it cannot read. Where the format has texts about the
    model, or a signature that the graph's differs from, ``load`` sets the graph's ``description``.
    """

    name: str
    version: str
    suffixes: Sequence[str]

    def recognises(self, path: Path) -> bool:
        """True if the content of ``path`` looks like this format (never raises)."""
        ...

    def load(self, path: Path, options: LoadOptions) -> Graph:
        """Read the model."""
        ...

    def reference(self, path: Path, options: LoadOptions) -> Reference:
        """The model run by its own framework: the reference. Raise PluginError if that is not installed."""
        ...


@runtime_checkable
class Exporter(Protocol):
    """A frontend that can also write models of its format."""

    def export(self, graph: Graph, path: Path, *, inline: bool) -> None:
        """Write ``graph``, fused nodes as functions with their bodies, or inlined. Raise ModelError if it cannot."""
        ...


@runtime_checkable
class Adviser(Protocol):
    """A frontend that also knows files which it does not read, but which its users may have instead."""

    def advise(self, path: Path) -> str | None:
        """What the file at ``path`` is and what to do with it, as the end of "it is ..."; None if that is unknown."""
        ...
