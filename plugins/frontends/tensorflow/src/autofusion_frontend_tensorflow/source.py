"""The model as TensorFlow wrote it: nodes with resolved operands, and bodies (the graph itself, and its functions).

Three ways of naming an operand become one: ``name``, ``name:2``, and inside functions ``name:output_arg:0``. Control
edges order side effects, of which a graph that is frozen for inference has none; they only help to find old control
flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autofusion.frontends import ModelError
from autofusion_frontend_tensorflow import attributes

Ref = tuple[str, int]
"""A value: the name of its node (or of an argument) and the number of the result."""


@dataclass(slots=True)
class SourceNode:
    """One node. ``bodies`` are the parts of control flow that ``structurize`` found in Switch and Merge nodes."""

    name: str
    op: str
    inputs: tuple[Ref, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    bodies: Mapping[str, Body] = field(default_factory=dict)
    controls: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """How messages name the node."""
        return f"node '{self.name}' ({self.op})"

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or ``default`` where the file leaves it out."""
        value = attributes.read(self.attrs, name, f"attribute '{name}' of {self.label}")
        return default if value is None else value


@dataclass(slots=True)
class Body:
    """Nodes by name, the names of the arguments, and what is returned."""

    name: str
    nodes: dict[str, SourceNode]
    arguments: tuple[str, ...] = ()
    results: tuple[Ref, ...] = ()


def main_body(graph: Any) -> Body:
    """The nodes of the graph itself."""
    nodes: dict[str, SourceNode] = {}
    for proto in graph.node:
        if proto.name in nodes:
            raise ModelError(f"two nodes have the name '{proto.name}': the file is damaged")
        inputs = tuple(_ref(text) for text in proto.input if not text.startswith("^"))
        controls = tuple(text[1:] for text in proto.input if text.startswith("^"))
        nodes[proto.name] = SourceNode(proto.name, proto.op, inputs, proto.attr, controls=controls)
    return Body("graph", nodes)


def _ref(text: str) -> Ref:
    name, colon, port = text.rpartition(":")
    return (name, int(port)) if colon and port.isdigit() else (text, 0)


def parse_ref(text: str) -> Ref:
    """``name`` or ``name:2`` as the user writes it."""
    return _ref(text)
