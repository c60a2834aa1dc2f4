"""The model in double precision, by the reference kernels: what single precision is measured against.

Two single-precision runs that differ by rounding are both right; the double-precision run tells which of them is how
far off. Floating-point constants, input types and element-type attributes become float64, bodies included; integers
and truth values stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.cost.detect import detect
from autofusion.cost.model import CostModel
from autofusion.errors import OptionError, nearest
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import OptionalType, SequenceType, TensorType, Type
from autofusion.kernels.contract import KernelPack
from autofusion.kernels.target import Target
from autofusion.options import Options
from autofusion.plugins.registry import Registry, default_registry
from autofusion.rules.level import Level
from autofusion.runtime.context import Context
from autofusion.runtime.session import Session

F64 = np.dtype(np.float64)


def is_narrow(dtype: Any) -> bool:
    """True for floating-point types that are widened: all but float64 (ml_dtypes' types are of kind V)."""
    if not isinstance(dtype, np.dtype) or dtype == F64:
        return False
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.names is None and "float" in dtype.name)


def widened(value: Any) -> Any:
    """An array, or a list of them, with floating-point numbers as float64; anything else as it is."""
    if isinstance(value, list | tuple):
        return type(value)(widened(v) for v in value)
    if isinstance(value, np.ndarray) and is_narrow(value.dtype):
        return value.astype(F64)
    return value


def _widened_type(type_: Type | None) -> Type | None:
    if isinstance(type_, TensorType):
        return TensorType(F64, type_.shape) if is_narrow(type_.dtype) else type_
    if isinstance(type_, SequenceType | OptionalType):
        inner = _widened_type(type_.element)
        assert inner is not None
        return type(type_)(inner)
    return type_


def double_graph(graph: Graph) -> Graph:
    """A copy of ``graph`` that computes in double precision; names and structure stay."""
    new = Graph(graph.name)
    values: dict[Value, Value] = {}
    for value in graph.inputs:
        default = None if value.default is None else widened(value.default)
        values[value] = new.add_input(value.name, _widened_type(value.type), default)
    constants: dict[Value, Value] = {}

    def mapped(value: Value) -> Value:
        if value.const is None:
            return values[value]
        if value not in constants:
            constants[value] = new.constant(widened(value.const), value.name)
        return constants[value]

    for node in graph.nodes:
        made = new.node(
            node.op,
            [None if v is None else mapped(v) for v in node.inputs],
            {name: _attribute(a) for name, a in node.attrs.items()},
            outputs=[_widened_type(v.type) for v in node.outputs],
            output_names=[v.name for v in node.outputs],
            name=node.name,
            origin=node.origin,
        )
        values.update(zip(node.outputs, made.outputs, strict=True))
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        new.add_output(mapped(value), name)
    return new


def _attribute(value: Any) -> Any:
    if isinstance(value, Graph):
        return double_graph(value)
    if isinstance(value, np.dtype):
        return F64 if is_narrow(value) else value
    if isinstance(value, TensorType | SequenceType | OptionalType):
        return _widened_type(value)
    return widened(value) if isinstance(value, np.ndarray) else value


# ---- running by the reference kernels ------------------------------------------------------------------------------


def book_session(graph: Graph, registry: Registry | None = None, threads: int = 1) -> Session:
    """A session of ``graph`` without rules, on the reference kernels alone."""
    registry = registry or default_registry()
    target = detect(threads)
    options = Options(level=Level.OFF)
    return Session(graph, Context([], [registry.reference_pack(target)], target, CostModel(target), options))


def exact_session(source: Graph, registry: Registry | None = None) -> Session:
    """A session that runs ``source`` in double precision by the reference kernels.

    Raises an error if the model has an operator that exists in single precision only.
    """
    graph = double_graph(source)
    infer_graph(graph)
    return book_session(graph, registry)


def exact_values(source: Graph, inputs: Mapping[str, Any], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Values of ``source`` by name, in double precision."""
    session = exact_session(source)
    given = {name: widened(np.asarray(value)) for name, value in inputs.items()}
    known = [v.name for v in session.source.values()]
    for name in names:
        if name not in known:
            raise OptionError(f"the model has no value '{name}'{nearest(name, known)}")
    return session.watch(names, given).values


class Book:
    """Evaluates bodies of fused nodes by the reference kernels, as they are and in double precision."""

    def __init__(self, pack: KernelPack, target: Target) -> None:
        options = Options(level=Level.OFF)
        self._context = Context([], [pack], target, CostModel(target), options)
        self._double: dict[Graph, Graph] = {}

    def plain(self, body: Graph, operands: Sequence[Any]) -> list[Any]:
        """The body's results, each operation rounded to its own type."""
        return self._run(body, operands)

    def exact(self, body: Graph, operands: Sequence[Any]) -> list[Any]:
        """The body's results in double precision."""
        if body not in self._double:
            self._double[body] = double_graph(body)
        return self._run(self._double[body], [widened(v) for v in operands])

    def _run(self, body: Graph, operands: Sequence[Any]) -> list[Any]:
        from autofusion.runtime.watch import replay

        values = replay(body, operands, self._context)
        return [v.const if v.const is not None else values[v] for v in body.outputs]


def body_of(node: Node) -> Graph:
    """The meaning of a step's node as a graph of its own: a fused node's body, or the one ordinary operator."""
    if "body" in node.attrs and isinstance(node.attrs["body"], Graph):
        return node.body
    graph = Graph(node.name)
    operands = [None if v is None else graph.add_input(v.name, v.type) for v in node.inputs]
    made = graph.node(
        node.op,
        operands,
        node.attrs,
        outputs=[v.type for v in node.outputs],
        output_names=[v.name for v in node.outputs],
        name=node.name,
        origin=node.origin,
    )
    for value in made.outputs:
        graph.add_output(value)
    return graph
