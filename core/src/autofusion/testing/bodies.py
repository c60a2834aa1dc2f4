"""Fused nodes whose bodies a kernel did not foresee: other operators, attributes, constants and shapes.

A kernel must run what a body says, or refuse it. So every operator of a body gives way to another that takes the same
operands, every attribute takes other values, constants change, and every size of the operands is another one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.ir import operators
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.types import TensorType, Type
from autofusion.testing.apply import run_node
from autofusion.testing.attributes import other_values
from autofusion.testing.graphs import Rebuild
from autofusion.testing.nodes import NodeCase
from autofusion.testing.numbers import random_array
from autofusion.testing.variants import PER_ATTRIBUTE, OtherAttribute, OtherData, other_integers

CHANGED, RESIZED = 8, 2
"""Bodies, and sizes, that are tried for each fused node, chosen at random: over all nodes of a kind, they are many."""
_SWAPS = 3
_UNDEFINED = frozenset({"Mod"})
"""Operators that mean nothing for floating-point numbers unless an attribute says so."""


class _Scaled(Rebuild):
    def constant(self, value: Value) -> np.ndarray:
        assert value.const is not None
        return np.asarray(value.const * 3) if value.const.dtype.kind == "f" else value.const


class _Swapped(Rebuild):
    """One node has another operator, with its attributes as they are by default."""

    def __init__(self, index: int, new: str) -> None:
        self._index, self._new = index, new

    def of(self, graph: Graph) -> Graph | None:
        copy = graph.copy()
        node = copy.nodes[self._index]
        node.op, node.attrs = self._new, {}
        return super().of(copy)


class _Longer(Rebuild):
    """One more operator behind the result."""

    def __init__(self, op: str) -> None:
        self._op = op

    def of(self, graph: Graph) -> Graph | None:
        copy = graph.copy()
        node = copy.node(self._op, [copy.outputs[0]], origin=("more",))
        copy.set_output(0, node.output)
        return super().of(copy)


class _Resized(Rebuild):
    """Every size of an operand or a constant that ``sizes`` names is another one."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self._sizes = sizes

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """``shape`` with other sizes."""
        return tuple(self._sizes.get(size, size) for size in shape)

    def input(self, value: Value) -> tuple[Type | None, np.ndarray | None]:
        assert isinstance(value.type, TensorType)
        return value.type.with_shape(self.shape(value.type.static_shape)), None

    def constant(self, value: Value) -> np.ndarray:
        assert value.const is not None
        return np.resize(value.const, self.shape(value.const.shape))


def _alike(op: str) -> list[str]:
    """Pointwise operators that take as many operands as ``op``, and need no attribute."""
    schema = operators.find(op)
    if schema is None or schema.op_class is not operators.OpClass.POINTWISE:
        reductions = operators.names(lambda o: o.name.startswith("Reduce"))
        return [name for name in reductions if name != op] if op in reductions else []

    def fits(other: operators.Operator) -> bool:
        arity = (other.min_inputs, other.max_inputs) == (schema.min_inputs, schema.max_inputs)
        free = operators.REQUIRED not in other.attributes.values() and other.deterministic
        return (
            other.op_class is operators.OpClass.POINTWISE
            and arity
            and free
            and other.name not in (op, FUSED, *_UNDEFINED)
        )

    return list(operators.names(fits))


def _changes(body: Graph) -> Iterator[tuple[str, Rebuild]]:
    rng = random.Random(str([node.op for node in body.nodes]))
    yield "constants times 3", _Scaled()
    for op in ("Sin", "Round", *rng.sample(_alike("Relu"), _SWAPS)):
        yield f"{op} behind it", _Longer(op)
    for index, node in enumerate(body.nodes):
        others = _alike(node.op)
        for other in rng.sample(others, min(_SWAPS, len(others))):
            yield f"{other} for {node.op}", _Swapped(index, other)
        yield from _other_attributes(node)
    for constant in body.constants():
        assert constant.const is not None
        for data in other_integers(constant.const):
            yield f"'{constant.name}' {data.reshape(-1)[:8]}", OtherData(constant, data)


def _other_attributes(node: Node) -> Iterator[tuple[str, Rebuild]]:
    counts: dict[str, int] = {}
    for name, value in other_values(node):
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= PER_ATTRIBUTE:
            yield f"'{name}' {value} of {node.op}", OtherAttribute(node, name, value)


def unforeseen(case: NodeCase) -> Iterator[tuple[str, NodeCase]]:
    """The fused node with bodies that mean something else, whose operands and results are of the same types."""
    body = case.node.body
    changes = list(_changes(body))
    random.Random(str(case)).shuffle(changes)
    for what, change in changes[:CHANGED]:
        made = change.of(body)
        if made is not None and [v.type for v in made.outputs] == [v.type for v in body.outputs]:
            yield from _usable(what, case, made, case.arrays)


def resized(case: NodeCase) -> Iterator[tuple[str, NodeCase]]:
    """The fused node with other sizes of its operands, the same ones wherever a size occurs."""
    body, rng = case.node.body, np.random.default_rng(5)
    present = [a for a in case.arrays if a is not None]
    sizes = sorted({size for array in present for size in array.shape})
    pairs = [(size, other) for size in sizes for other in (1, size + 1, 2 * size + 3) if other != size]
    random.Random(str(case)).shuffle(pairs)
    for size, other in pairs[:RESIZED]:
        change = _Resized({size: other})
        made = change.of(body)
        if made is not None:
            arrays = [
                None if v is None or a is None
                else np.resize(a, change.shape(a.shape)) if v.const is not None
                else random_array(TensorType(a.dtype, change.shape(a.shape)), rng)
                for v, a in zip(case.node.inputs, case.arrays, strict=True)
            ]  # fmt: skip
            yield from _usable(f"{other} for {size} elements", case, made, tuple(arrays))


def _usable(
    what: str, case: NodeCase, body: Graph, arrays: tuple[np.ndarray | None, ...]
) -> Iterator[tuple[str, NodeCase]]:
    graph, values = Graph(case.node.name), {}
    for value, data in zip(case.node.inputs, arrays, strict=True):
        if value is not None and value not in values:
            assert data is not None
            type_ = TensorType(data.dtype, data.shape)
            values[value] = graph.constant(data) if value.const is not None else graph.add_input(value.name, type_)
    operands = [None if v is None else values[v] for v in case.node.inputs]
    attrs = {**case.node.attrs, "body": body}
    node = graph.node(FUSED, operands, attrs, outputs=[v.type for v in body.outputs], origin=case.node.origin)
    for value in node.outputs:
        graph.add_output(value)
    try:
        run_node(node, list(arrays))
    except (AutofusionError, ArithmeticError, IndexError, ValueError):
        return  # it means nothing
    yield what, NodeCase(node, arrays)
