"""Imports the nodes of one body into an IR graph, on demand: what no result needs is never looked at.

Training remains, unused placeholders and unknown operators on dead branches cost nothing that way, and the order of the
nodes in the file does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autofusion.frontends import (
    DAMAGE,
    ConverterTable,
    ModelError,
    Origins,
    ShapeError,
    UnsupportedOperatorError,
    naming_node,
    nearest,
)
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import merge_types
from autofusion.ir.types import TensorType
from autofusion_frontend_tensorflow import complexes, lists
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.library import Library
from autofusion_frontend_tensorflow.source import Body, Ref, SourceNode
from autofusion_frontend_tensorflow.unknown import cutting_advice, unknown_nodes

_DEEPEST = 64


@dataclass(slots=True)
class Model:
    """What all scopes of one model share."""

    path: Path
    library: Library
    converters: ConverterTable
    origins: Origins = field(default_factory=Origins)
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Of inputs, as the user states them: for those whose rank the file leaves open."""
    root: Scope | None = None
    """The first scope, of the graph itself."""


class Scope:
    """The values of one body while its nodes are imported. ``arguments`` are the values of the body's arguments."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        body: Body,
        arguments: Mapping[str, Value] | None = None,
        prefix: str = "",
        depth: int = 0,
    ) -> None:
        if depth > _DEEPEST:
            raise ModelError(f"function '{body.name}' is called more than {_DEEPEST} levels deep")
        self.model = model
        model.root = model.root or self
        self.graph = graph
        self.body = body
        self.prefix = prefix
        self.depth = depth
        self.values: dict[Ref, Value] = {(name, 0): value for name, value in (arguments or {}).items()}
        self._wanted: set[Ref] | None = None
        self._asked: set[Ref] = set()

    def inlined(self, body: Body, operands: Sequence[Value], name: str, graph: Graph | None = None) -> list[Value]:
        """The results of ``body`` imported into ``graph``, by default this scope's."""
        arguments = dict(zip(body.arguments, operands, strict=True))
        scope = Scope(self.model, self.graph if graph is None else graph, body, arguments, f"{name}/", self.depth + 1)
        return scope.resolve(body.results)

    def within(self, graph: Graph) -> Scope:
        """A scope of the same body that emits into ``graph``, and knows no values yet."""
        return Scope(self.model, graph, self.body, prefix=self.prefix, depth=self.depth)

    def resolve(self, refs: Sequence[Ref], reader: str = "the model") -> list[Value]:
        """The values behind ``refs``; every node they depend on is imported."""
        self._asked.update(refs)
        for ref in refs:
            self._require(ref, reader)
        return [self.values[ref] for ref in refs]

    def wanted(self, node: SourceNode, port: int) -> bool:
        """True if any node, or who asked for results, reads this result."""
        if self._wanted is None:
            self._wanted = {ref for n in self.body.nodes.values() for ref in n.inputs}
        return (node.name, port) in self._wanted or (node.name, port) in self._asked

    def _require(self, ref: Ref, reader: str) -> None:
        """Import what ``ref`` depends on, operands first, without recursion: graphs are thousands of nodes deep."""
        if ref in self.values:
            return
        stack: list[tuple[SourceNode, int]] = [(self._source(ref, reader), 0)]
        open_nodes = {stack[0][0].name}
        while stack:
            node, at = stack.pop()
            for index in range(at, len(node.inputs)):
                wanted = node.inputs[index]
                if wanted in self.values:
                    continue
                inner = self._source(wanted, node.label)
                if inner.name in open_nodes:
                    raise ModelError(f"{node.label} depends on itself through '{inner.name}'")
                open_nodes.add(inner.name)
                stack.append((node, index))
                stack.append((inner, 0))
                break
            else:
                open_nodes.discard(node.name)
                self._import(node)
        if ref not in self.values:
            node = self._source(ref, reader)
            raise ModelError(f"{reader} reads result {ref[1]} of {node.label}, which it does not have")

    def _source(self, ref: Ref, reader: str) -> SourceNode:
        node = self.body.nodes.get(ref[0])
        if node is None:
            raise ModelError(
                f"{reader} reads '{ref[0]}', which no node of the model is called{nearest(ref[0], self.body.nodes)}; "
                "is the file complete?"
            )
        if (node.name, 0) in self.values:
            raise ModelError(f"{reader} reads result {ref[1]} of {node.label}, which it does not have")
        return node

    def _import(self, node: SourceNode) -> None:
        name = self.model.origins.unique(self.prefix + node.name)
        call = Call(self, node, name, [self.values[ref] for ref in node.inputs])
        added = self.model.converters.is_added(node.op)
        with naming_node(call.label, (Exception,) if added else DAMAGE):
            results = self._converted(call)
        # The first result has the name of the node, as in TensorFlow.
        call.name_results(results, [name, *(f"{name}:{port}" for port in range(1, len(results)))])
        self._stated_shapes(node, results)
        for port, value in enumerate(results):
            if value is not None:
                self.values[node.name, port] = value

    def _converted(self, call: Call) -> list[Value | None]:
        if call.op not in lists.AWARE:
            call.inputs = [None if v is None else lists.filled(call, v) for v in call.inputs]
        operands = [v for v in call.inputs if v is not None]
        if call.op in self.model.library:
            return [*self.inlined(self.model.library.body(call.op, call.label), operands, call.name)]
        function = self.model.converters.find(call.op)
        if function is None:
            raise self._unknown(call)
        return complexes.convert(call, function)

    def _unknown(self, call: Call) -> UnsupportedOperatorError:
        """The error for this node, and for all others of the model that have no converter either."""
        root, model = self.model.root or self, self.model
        found = unknown_nodes(root.body, root._asked, root.values.keys(), model.library, model.converters)
        return model.converters.unknown(found or [(call.op, call.name)], cutting_advice(found))

    def _stated_shapes(self, node: SourceNode, results: Sequence[Value | None]) -> None:
        """What the file says about shapes, where inference could not know it."""
        if "_output_shapes" not in node.attrs:
            return
        stated = node.attr("_output_shapes", [])
        for value, shape in zip(results, stated, strict=False):
            if (
                value is not None
                and isinstance(value.type, TensorType)
                and not value.type.is_static
                and shape.dims is not None
            ):
                try:
                    value.type = merge_types(value.type, value.type.with_shape(shape.dims))
                except ShapeError:
                    continue  # stale after an edit of the file: what the operators say counts
