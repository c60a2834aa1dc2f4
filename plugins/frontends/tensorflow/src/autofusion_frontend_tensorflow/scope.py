"""Imports the nodes of one body into an IR graph, on demand: what no result needs is never looked at.

Training remains, unused placeholders and unknown operators on dead branches cost nothing that way, and the order of the
nodes in the file does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autofusion.frontends import AutofusionError, ModelError, ShapeError, nearest
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import merge_types
from autofusion.ir.types import TensorType
from autofusion_frontend_tensorflow import complexes, converters, lists
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import extra, find_converter, known_operators
from autofusion_frontend_tensorflow.source import Body, Library, Ref, SourceNode

_DEEPEST = 64

converters.load()


@dataclass(slots=True)
class Model:
    """What all scopes of one model share."""

    path: Path
    library: Library
    origins: dict[str, int] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Of inputs, as the user states them: for those whose rank the file leaves open."""

    def origin(self, name: str) -> str:
        """``name``, made unique among the names of source nodes."""
        count = self.origins.get(name, 0) + 1
        self.origins[name] = count
        return name if count == 1 else f"{name}#{count}"


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
        self.graph = graph
        self.body = body
        self.prefix = prefix
        self.depth = depth
        self.values: dict[Ref, Value] = {(name, 0): value for name, value in (arguments or {}).items()}
        self._wanted: set[Ref] | None = None
        self._asked: set[Ref] = set()

    def inlined(self, body: Body, operands: Sequence[Value], name: str) -> list[Value]:
        """The results of ``body`` imported into this scope's graph."""
        arguments = dict(zip(body.arguments, operands, strict=True))
        scope = Scope(self.model, self.graph, body, arguments, f"{name}/", self.depth + 1)
        return scope.resolve(body.results)

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
        name = self.model.origin(self.prefix + node.name)
        call = Call(self, node, name, [self.values[ref] for ref in node.inputs])
        if node.op not in lists.AWARE:
            call.inputs = [lists.filled(call, v) for v in call.inputs]
        try:
            if node.op in self.model.library:
                results: list[Value | None] = list(
                    self.inlined(self.model.library.body(node.op, call.label), call.inputs, name)
                )
            else:
                function = find_converter(node.op)
                if function is None:
                    raise extra().unknown(node.op, name, known_operators())
                results = complexes.convert(call, function)
        except ModelError:
            raise
        except AutofusionError as error:
            raise ModelError(f"{call.label}: {error}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # A converter reads attributes and operands as TensorFlow has them; a damaged model may hold anything.
            raise ModelError(f"{call.label}: it cannot be read: {type(error).__name__}: {error}") from error
        self._named(call, results)
        self._stated_shapes(node, results)
        for port, value in enumerate(results):
            if value is not None:
                self.values[node.name, port] = value

    def _named(self, call: Call, results: Sequence[Value | None]) -> None:
        """Results that the converter made under passing names get those of the source."""
        for port, value in enumerate(results):
            if value is None:
                continue
            if value.producer in call.made and value.name.startswith(f"{call.name}/"):
                value.name = self.graph.unique_value_name(call.name if port == 0 else f"{call.name}:{port}")

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
