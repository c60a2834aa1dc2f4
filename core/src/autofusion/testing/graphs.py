"""Make a graph into another: other element types, other sizes, other spellings, and look-alikes that are not the same.

A rule that is right about one graph is tried on many that differ a little. Two families: *spellings* mean the same (the
operands of a commutative operator in the other order, other names), so that the rule should still fire; *near-misses*
differ in something a rule must look at (a constant's value, who else reads a value, whether a constant may be
overridden), so that it may or may not fire, but what comes out must compute what went in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.operators import is_commutative
from autofusion.ir.types import TensorType, Type
from autofusion.ir.verify import verify

Named = tuple[str, Graph]
"""What was changed, and the graph."""


class Rebuild:
    """Copies a graph value by value, so that a subclass can change what it wants on the way."""

    def input(self, value: Value) -> tuple[Type | None, np.ndarray | None]:
        """Type and default of an input."""
        return value.type, value.default

    def constant(self, value: Value) -> np.ndarray:
        """Data of a constant."""
        assert value.const is not None
        return value.const

    def operands(self, node: Node, operands: list[Value | None]) -> list[Value | None]:
        """Operands of a node, already in the new graph."""
        return operands

    def attributes(self, node: Node) -> dict[str, Any]:
        """Attributes of a node."""
        return dict(node.attrs)

    def of(self, graph: Graph) -> Graph | None:
        """The new graph, inferred and verified; None if its types do not fit together."""
        graph.sort()
        new, values = Graph(graph.name), {}
        for value in graph.inputs:
            values[value] = new.add_input(value.name, *self.input(value))
        for node in graph.nodes:
            given: list[Value | None] = []
            for operand in node.inputs:
                if operand is not None and operand not in values:
                    values[operand] = new.constant(self.constant(operand), operand.name)
                given.append(None if operand is None else values[operand])
            attrs, operands = self.attributes(node), self.operands(node, given)
            copy = new.node(
                node.op, operands, attrs, outputs=len(node.outputs), name=node.name, origin=node.origin or (node.name,)
            )
            for old, fresh in zip(node.outputs, copy.outputs, strict=True):
                values[old] = fresh
                if not isinstance(old.type, TensorType):
                    fresh.type = old.type
        for value, name in zip(graph.outputs, graph.output_names, strict=True):
            if value not in values:
                values[value] = new.constant(self.constant(value), value.name)
            new.add_output(values[value], name)
        try:
            infer_graph(new)
            verify(new)
        except AutofusionError:
            return None
        return new


class _OtherType(Rebuild):
    def __init__(self, dtype: np.dtype) -> None:
        self._dtype = dtype

    def _is_single(self, dtype: Any) -> bool:
        return isinstance(dtype, np.dtype) and dtype == np.float32

    def input(self, value: Value) -> tuple[Type | None, np.ndarray | None]:
        if not self._is_single(value.dtype):
            return value.type, value.default
        assert isinstance(value.type, TensorType)
        default = None if value.default is None else value.default.astype(self._dtype)
        return TensorType(self._dtype, value.type.shape), default

    def constant(self, value: Value) -> np.ndarray:
        assert value.const is not None
        return value.const.astype(self._dtype) if self._is_single(value.dtype) else value.const

    def attributes(self, node: Node) -> dict[str, Any]:
        return {k: self._dtype if self._is_single(v) else v for k, v in node.attrs.items()}


def with_type(graph: Graph, dtype: np.dtype) -> Graph | None:
    """The graph with ``dtype`` wherever it has float32; None if its operators do not take that type."""
    return _OtherType(dtype).of(graph)


class _OtherSizes(Rebuild):
    def __init__(self, sizes: Mapping[str, int], default: int) -> None:
        self._sizes, self._default = sizes, default

    def input(self, value: Value) -> tuple[Type | None, np.ndarray | None]:
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            return value.type, value.default
        shape = tuple(
            d if isinstance(d, int) else self._default if d is None else self._sizes.get(d, self._default)
            for d in value.type.shape
        )
        return value.type.with_shape(shape), value.default


def with_sizes(graph: Graph, sizes: Mapping[str, int], default: int) -> Graph | None:
    """The graph with sizes for its symbols (``default`` for those without); None if they do not fit."""
    return _OtherSizes(sizes, default).of(graph)


def is_open(graph: Graph) -> bool:
    """True if an input has a dim that is not a number."""
    return any(isinstance(v.type, TensorType) and not v.type.is_static for v in graph.inputs)


# ---- spellings ---------------------------------------------------------------------------------------------------


class _Swapped(Rebuild):
    def __init__(self, chosen: Collection[Node]) -> None:
        self._chosen = chosen

    def operands(self, node: Node, operands: list[Value | None]) -> list[Value | None]:
        return operands[::-1] if node in self._chosen else operands


def spellings(graph: Graph) -> Iterator[Named]:
    """The same computation, written otherwise: operands of commutative operators in the other order."""
    commutative = [n for n in graph.nodes if is_commutative(n.op) and len(n.inputs) == 2]
    for node in commutative:
        yield from _made(f"operands of {node.label} swapped", _Swapped([node]).of(graph))
    if len(commutative) > 1:
        yield from _made("all commutative operands swapped", _Swapped(commutative).of(graph))


def renamed(graph: Graph) -> Graph:
    """The same graph under other names of nodes and values; the origins too."""
    new = graph.copy()
    for index, node in enumerate(new.nodes):
        node.name = f"q{index}"
        node.origin = (f"z/{index}",)
        for value in node.outputs:
            value.name = f"v{index}.{value.index}"
    return new


# ---- near-misses -------------------------------------------------------------------------------------------------


class _OtherConstant(Rebuild):
    def __init__(self, wanted: Value, factor: float) -> None:
        self._wanted, self._factor = wanted, factor

    def constant(self, value: Value) -> np.ndarray:
        assert value.const is not None
        if value is not self._wanted:
            return value.const
        return np.asarray(value.const.astype(np.float64) * self._factor).astype(value.const.dtype)


class _Overridable(Rebuild):
    """Makes one constant an input with a stored value, which a caller may override."""

    def __init__(self, wanted: Value) -> None:
        self._wanted = wanted

    def of(self, graph: Graph) -> Graph | None:
        copy, values = graph.copy_with_map()
        old = values[self._wanted]
        assert old.const is not None
        new = copy.add_input(f"{old.name}_default", old.type, np.array(old.const))
        copy.replace_uses(old, new)
        return super().of(copy)


def near_misses(graph: Graph) -> Iterator[Named]:
    """Graphs that look alike and differ in something that a rule must look at."""
    interior = [v for node in graph.nodes for v in node.outputs if v.use_count and not v.is_output]
    for value in interior:
        copy, values = graph.copy_with_map()
        copy.add_output(values[value], f"{value.name}_seen")
        yield from _made(f"'{value.name}' is a graph output too", Rebuild().of(copy))
        if value.dtype is not None and value.dtype.kind == "f":
            copy, values = graph.copy_with_map()
            other = copy.node("Neg", [values[value]], name="another_reader")
            copy.add_output(other.output, "another")
            yield from _made(f"'{value.name}' has another reader", Rebuild().of(copy))
    for constant in graph.constants():
        assert constant.const is not None
        if constant.const.dtype.kind == "f" and constant.const.size:
            for factor in (1.01, -1.0, 3.0):
                yield from _made(f"'{constant.name}' times {factor}", _OtherConstant(constant, factor).of(graph))
            yield from _made(f"'{constant.name}' may be overridden", _Overridable(constant).of(graph))


def _made(what: str, graph: Graph | None) -> Iterator[Named]:
    if graph is not None:
        yield what, graph
