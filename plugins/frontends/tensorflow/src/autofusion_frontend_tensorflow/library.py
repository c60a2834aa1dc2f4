"""The functions of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autofusion.frontends import ModelError
from autofusion_frontend_tensorflow.source import Body, Ref, SourceNode
from autofusion_frontend_tensorflow.structurize import structurize

OutputNames = Callable[[str], Sequence[str] | None]
"""Names of the results of an operator, where there is more than one; None if it is not known."""


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
                raise ModelError(f"function '{name}' reads '{text}', which is not one of its nodes or arguments")
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
        return structurize(Body(name, nodes, arguments, results))

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
