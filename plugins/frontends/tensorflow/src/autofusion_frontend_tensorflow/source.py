"""The model as TensorFlow wrote it: nodes with resolved operands, and bodies (the graph itself, and its functions).

Three ways of naming an operand become one: ``name``, ``name:2``, and inside functions ``name:output_arg:0``. Control
edges order side effects, of which a graph that is frozen for inference has none; they only help to find old control
flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autofusion.frontends import ModelError
from autofusion_frontend_tensorflow import attributes

Ref = tuple[str, int]
"""A value: the name of its node (or of an argument) and the number of the result."""

OutputNames = Callable[[str], Sequence[str] | None]
"""Names of the results of an operator, where there is more than one; None if it is not known."""


@dataclass(slots=True)
class SourceNode:
    """One node. ``bodies`` are the parts of control flow that was found in Switch and Merge nodes (see ``raising``)."""

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


class Library:
    """The functions of a model, each read when it is first called."""

    def __init__(self, graph: Any, output_names: OutputNames) -> None:
        self._protos = {f.signature.name: f for f in graph.library.function}
        self._bodies: dict[str, Body] = {}
        self._output_names = output_names

    def __contains__(self, name: str) -> bool:
        return name in self._protos

    def body(self, name: str, caller: str) -> Body:
        """Function ``name``; raise ModelError if the library has none."""
        if name not in self._bodies:
            if name not in self._protos:
                raise ModelError(f"{caller} calls function '{name}', which the model does not have")
            self._bodies[name] = self._read(self._protos[name])
        return self._bodies[name]

    def _read(self, proto: Any) -> Body:
        from autofusion_frontend_tensorflow.raising import raised

        name = proto.signature.name
        arguments = tuple(arg.name for arg in proto.signature.input_arg)
        known = set(arguments)
        operators = {node.name: node.op for node in proto.node_def}

        def ref(text: str) -> Ref:
            if text in known:
                return text, 0
            node, _, rest = text.partition(":")
            result, _, index = rest.rpartition(":")
            if node not in operators or not index.isdigit():
                raise ModelError(f"function '{name}' reads '{text}', which is none of its nodes or arguments")
            return node, self._offset(operators[node], result, name, node) + int(index)

        nodes = {
            node.name: SourceNode(
                node.name,
                node.op,
                tuple(ref(text) for text in node.input if not text.startswith("^")),
                node.attr,
                controls=tuple(text[1:] for text in node.input if text.startswith("^")),
            )
            for node in proto.node_def
        }
        results = tuple(ref(proto.ret[arg.name]) for arg in proto.signature.output_arg)
        return raised(Body(name, nodes, arguments, results))

    def _offset(self, op: str, result: str, function: str, node: str) -> int:
        names: Sequence[str] | None
        if op in self._protos:
            names = [arg.name for arg in self._protos[op].signature.output_arg]
        else:
            names = self._output_names(op)
        if names is None:  # one result, or one list of results
            return 0
        if result not in names:
            raise ModelError(
                f"function '{function}' reads result '{result}' of node '{node}' ({op}), which has {', '.join(names)}"
            )
        return list(names).index(result)
