"""Turns the nodes of a graph (the model's, a body's, a function's) into IR nodes, by the scoping rules of ONNX.

A body sees the names of the graphs around it. The IR has no such thing: a name that a body does not define becomes an
input of the body's graph and an operand of the node that owns it, through as many levels as lie between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path

import numpy as np
import onnx

from autofusion.frontends import ConverterTable, ModelError, OptionError, Origins, ShapeError, nearest
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType, Type, of_array
from autofusion_frontend_onnx import order, proto
from autofusion_frontend_onnx.attributes import read_attributes
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.functions import FunctionKey
from autofusion_frontend_onnx.operators import convert
from autofusion_frontend_onnx.tensors import sparse_to_array, to_array

_DEEPEST = 64
_CONTROL = frozenset({"If", "Loop", "Scan"})


@dataclass(slots=True)
class Model:
    """What all scopes of one model share."""

    path: Path
    ir_version: int
    functions: Mapping[FunctionKey, onnx.FunctionProto]
    names: set[str]
    """All names that the source gives to values."""
    converters: ConverterTable
    unknown: Callable[[], list[tuple[str, str]]]
    """(operator, node) of every node of the default domain that no version imported here has."""
    origins: Origins = field(default_factory=Origins)
    ranks: dict[Value, int] = field(default_factory=dict)
    """What the source states about ranks that nothing infers; it may not hold."""


class Scope:
    """The names of one graph or function while its nodes are imported."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        opsets: Mapping[str, int],
        *,
        outer: Scope | None = None,
        prefix: str = "",
        attributes: Mapping[str, onnx.AttributeProto] | None = None,
        depth: int = 0,
        tolerant: bool = False,
    ) -> None:
        self.model = model
        self.graph = graph
        self.opsets = opsets
        self.outer = outer
        self.prefix = prefix
        self.attributes = attributes or {}
        self.depth = depth
        self.tolerant = tolerant
        self.absent: set[str] = set()
        self.values: dict[str, Value] = {}
        self.stored: dict[str, Callable[[], np.ndarray]] = {}
        self.declared: dict[str, Type | None] = {}
        self.captures: list[tuple[Value, Value]] = []
        if depth > _DEEPEST:
            raise ModelError(
                f"graph '{graph.name}' is nested more than {_DEEPEST} levels deep (bodies and function calls)"
            )

    # ---- names ---------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value | None:
        """The value that ``name`` stands for here, or None. Constants from outside are copied, all else is captured."""
        value = self.values.get(name)
        if value is not None:
            return value
        stored = self.stored.get(name)
        if stored is not None:
            value = self.graph.constant(stored(), self.prefix + name)
        elif self.outer is None:
            return None
        else:
            outside = self.outer.lookup(name)
            if outside is None:
                return None
            if outside.const is not None:
                value = self.graph.constant(outside.const, name)
            else:
                value = self.capture(outside)
        self.values[name] = value
        return value

    def read(self, name: str, reader: str) -> Value:
        """Like ``lookup``; raise ModelError if nothing defines ``name``."""
        value = self.lookup(name)
        if value is None:
            known = self.values.keys() | self.stored.keys()
            raise ModelError(
                f"{reader} reads '{name}', which no node, input or initialiser defines{nearest(name, known)}"
            )
        return value

    def free_name(self, name: str) -> str:
        """``name``, changed if it is one that the source gives to a value."""
        while name in self.model.names:
            name += "'"
        return name

    def value_names(self, names: Sequence[str]) -> list[str]:
        """The names that results get in the IR."""
        return [self.prefix + n if n else "" for n in names]

    def infer(self, node: Node) -> None:
        """Infer the result types; in a body, contradictions (that no run may ever meet) leave them unknown."""
        try:
            infer_node(node)
        except ShapeError:
            if not self.tolerant:
                raise

    def declare(self, infos: Iterable[onnx.ValueInfoProto]) -> None:
        """Take note of what a graph says about the types of its values."""
        for info in infos:
            self.declared[info.name] = proto.value_type(info.type)

    def store(self, graph: onnx.GraphProto) -> None:
        """Take note of the initialisers; each is read when something uses it."""
        path = self.model.path
        for tensor in graph.initializer:
            self._store(tensor.name, partial(to_array, tensor, path, f"initialiser '{tensor.name}'"))
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self._store(name, partial(sparse_to_array, sparse, path, f"initialiser '{name}'"))

    def _store(self, name: str, read: Callable[[], np.ndarray]) -> None:
        if not name:
            raise ModelError(f"graph '{self.graph.name}' has an initialiser without a name")
        if name in self.stored:
            raise ModelError(f"graph '{self.graph.name}' has two initialisers '{name}'")
        self.stored[name] = read

    # ---- nodes ---------------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[onnx.NodeProto], defined: Iterable[str] = ()) -> None:
        """Import ``nodes``, in an order that defines every value before it is read; ``defined`` are taken names."""
        order.check_single_assignment(nodes, {*defined, *self.stored}, self.graph.name)
        for index, node in order.in_order(nodes, self.graph.name):
            self._node(node, index)

    def _node(self, node: onnx.NodeProto, index: int) -> None:
        name = node.name or next((n for n in node.output if n), "") or f"{node.op_type}#{index}"
        name = self.model.origins.unique(self.prefix + name)
        label = f"node '{name}' ({node.op_type})"
        inputs = [self.read(n, label) if n and n not in self.absent else None for n in node.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        domain = proto.domain_name(node.domain)
        key = (domain, node.op_type, node.overload)
        function = self.model.functions.get(key)
        results: Sequence[Value | None]
        if function is not None:
            results = self.inline(function, key, node.attribute, inputs, name, node.output)
        else:
            attrs = read_attributes(node, self.attributes, self.model.path, label)
            version = self.opsets.get(domain, 1 if domain else 0)
            results = convert(Call(self, node, domain, version, name, inputs, attrs))
        self._bind(node, label, results)

    def _bind(self, node: onnx.NodeProto, label: str, results: Sequence[Value | None]) -> None:
        for index, wanted in enumerate(node.output):
            if not wanted:
                continue
            value = results[index] if index < len(results) else None
            if value is None:
                raise ModelError(f"{label} has no result {index}, which the model calls '{wanted}'")
            declared = self.declared.get(wanted)
            if declared is not None and value.const is None:
                self._state(value, declared)
            self.values[wanted] = value

    def _state(self, value: Value, declared: Type) -> None:
        """Take over what the file says about ``value``, where nothing is inferred.

        In bodies, and of what they give, exporters state ranks that do not hold (a branch for another rank has that of
        the branch beside it): there a rank is a hint, for converters that depend on one and know of nothing better.
        """
        hint = self.tolerant or (value.producer is not None and value.producer.op in _CONTROL)
        known = isinstance(value.type, TensorType) and value.type.rank is not None
        if hint and isinstance(declared, TensorType) and not known:
            if declared.rank is not None:
                self.model.ranks[value] = declared.rank
            declared = declared.with_shape(None)
        value.type = proto.merge(value.type, declared)

    def inline(
        self,
        function: onnx.FunctionProto,
        key: FunctionKey,
        attributes: Iterable[onnx.AttributeProto],
        inputs: Sequence[Value | None],
        name: str,
        outputs: Sequence[str],
    ) -> list[Value | None]:
        """Import the body of ``function`` in place of node ``name``; return its results, called ``outputs``."""
        what = f"function '{key[1]}' of domain '{key[0] or 'ai.onnx'}'"
        if len(inputs) > len(function.input):
            raise ModelError(
                f"node '{name}' passes {len(inputs)} operands to {what}, which takes {len(function.input)}"
            )
        given = {a.name: a for a in function.attribute_proto}
        for attribute in attributes:
            if not attribute.ref_attr_name:
                given[attribute.name] = attribute
            elif attribute.ref_attr_name in self.attributes:
                given[attribute.name] = self.attributes[attribute.ref_attr_name]
        inner = Scope(
            self.model,
            self.graph,
            proto.opsets(function.opset_import, 10, what) or self.opsets,
            prefix=f"{name}/",
            attributes=given,
            depth=self.depth + 1,
            tolerant=self.tolerant,
        )
        inner.declare(function.value_info)
        for formal, value in zip_longest(function.input, inputs):
            if value is None:
                inner.absent.add(formal)
            else:
                inner.values[formal] = value
        inner.nodes(function.node, function.input)
        results = [
            inner.read(formal, what) if wanted else inner.lookup(formal)
            for formal, wanted in zip(function.output, outputs, strict=False)
        ]
        for value, wanted in zip(results, outputs, strict=False):
            if wanted and value is not None and value.producer is not None and value.name.startswith(inner.prefix):
                value.name = self.graph.unique_value_name(self.prefix + wanted)
        return results

    def body(self, source: onnx.GraphProto, name: str, scalars: int = 0) -> tuple[Graph, list[tuple[Value, Value]]]:
        """Import a subgraph; return it with its captures, as (value out here, input of the subgraph) pairs.

        The first ``scalars`` inputs are scalars in the IR, even where the source has them as vectors of one element.
        """
        inner = self.child(name)
        inner.graph_of(source, scalars=scalars)
        return inner.graph, inner.captures

    def child(self, name: str) -> Scope:
        """The scope of a new graph inside this one."""
        return Scope(
            self.model,
            Graph(name),
            self.opsets,
            outer=self,
            prefix=self.prefix,
            attributes=self.attributes,
            depth=self.depth + 1,
            tolerant=True,
        )

    def capture(self, outside: Value) -> Value:
        """An input of this scope's graph that stands for ``outside``, a value of the graph around it."""
        for known, inside in self.captures:
            if known is outside:
                return inside
        inside = self.graph.add_input(outside.name, outside.type)
        if outside in self.model.ranks:
            self.model.ranks[inside] = self.model.ranks[outside]
        self.captures.append((outside, inside))
        return inside

    def graph_of(self, source: onnx.GraphProto, outputs: Sequence[str] = (), scalars: int = 0) -> None:
        """Import inputs, initialisers, nodes and outputs of a graph, or the named ``outputs`` instead of its own."""
        self.declare([*source.value_info, *source.output])
        self.store(source)
        names = [info.name for info in source.input]
        if len(set(names)) != len(names):
            raise ModelError(f"graph '{self.graph.name}' has two inputs of one name: {names}")
        for index, info in enumerate(source.input):
            self._input(info)
            if index < scalars:
                self._scalar(self.values[info.name], info)
        self.nodes(source.node, names)
        for name in outputs or [info.name for info in source.output]:
            value = self.lookup(name)
            if value is None:
                known = self.values.keys() | self.stored.keys()
                what = f"graph '{self.graph.name}' has no value '{name}' to be an output{nearest(name, known)}"
                raise OptionError(what) if outputs else ModelError(what)
            if self.outer is not None or name not in self.graph.output_names:
                self.graph.add_output(value, name)

    def _input(self, info: onnx.ValueInfoProto) -> None:
        if not info.name:
            raise ModelError(f"graph '{self.graph.name}' has an input without a name")
        stored = self.stored.get(info.name)
        if self.outer is not None:
            self.stored.pop(info.name, None)  # whoever runs the body passes all of its inputs
            stored = None
        elif stored is not None and self.model.ir_version < 4:
            return  # before IR version 4 every initialiser had to be listed as an input too: it is a plain constant
        default = None if stored is None else self.stored.pop(info.name)()
        type_ = proto.value_type(info.type)
        rank = type_.rank if self.outer is not None and isinstance(type_, TensorType) else None
        if self.outer is not None and isinstance(type_, TensorType):
            type_ = type_.with_shape(None)  # rank and sizes follow from the operands
        if default is not None:
            default.flags.writeable = False
            type_ = proto.merge(type_, of_array(default).with_shape(None))
        self.values[info.name] = self.graph.add_input(self.prefix + info.name, type_, default)
        if rank is not None:
            self.model.ranks[self.values[info.name]] = rank

    def _scalar(self, value: Value, info: onnx.ValueInfoProto) -> None:
        if not isinstance(value.type, TensorType):
            return
        value.type = value.type.with_shape(())
        if self.model.ranks.pop(value, None) == 1:
            one = self.graph.constant(np.ones(1, np.int64), self.prefix + info.name + "/shape")
            name = self.model.origins.unique(f"{self.graph.name}/{info.name}")
            node = self.graph.node("Reshape", [value, one], name=name)
            self.infer(node)
            self.values[info.name] = node.output
