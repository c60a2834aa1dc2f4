"""Variants of a graph that change one thing its nodes say, or one thing about its operands.

They are near-misses too (see ``graphs``): whether a rule still fires is its own business, the numbers must stay. One
attribute of one node, one number of a constant that says what a node does, the shape of one operand, the element type
of all. Many variants mean nothing (a kernel larger than its image): those that cannot be run are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.operators import PARAMETER_ELEMENTS
from autofusion.ir.types import TensorType, Type
from autofusion.testing.apply import run_graph_by_reference
from autofusion.testing.attributes import other_values
from autofusion.testing.graphs import Named, Rebuild, with_type
from autofusion.testing.numbers import ordinary_inputs

PER_ATTRIBUTE = 2
"""Values tried for each attribute of each node that can be run."""


class OtherAttribute(Rebuild):
    """Another value of one attribute of one node."""

    def __init__(self, wanted: Node, name: str, value: Any) -> None:
        self._wanted, self._name, self._value = wanted, name, value

    def attributes(self, node: Node) -> dict[str, Any]:
        return {**node.attrs, self._name: self._value} if node is self._wanted else dict(node.attrs)


class OtherData(Rebuild):
    """Other data, of any shape, for one constant."""

    def __init__(self, wanted: Value, data: np.ndarray) -> None:
        self._wanted, self._data = wanted, data

    def constant(self, value: Value) -> np.ndarray:
        return self._data if value is self._wanted else super().constant(value)


class _OtherShape(Rebuild):
    """Another shape for one input; a stored default goes."""

    def __init__(self, wanted: Value, shape: tuple[int, ...]) -> None:
        self._wanted, self._shape = wanted, shape

    def input(self, value: Value) -> tuple[Type | None, np.ndarray | None]:
        if value is not self._wanted or not isinstance(value.type, TensorType):
            return super().input(value)
        return value.type.with_shape(self._shape), None


def runs(graph: Graph) -> bool:
    """False for a made-up graph that inference takes, but whose operands make no sense (a shape of floats)."""
    try:
        with np.errstate(all="ignore"):
            run_graph_by_reference(graph, ordinary_inputs(graph))
    except (AutofusionError, ArithmeticError, IndexError, ValueError):
        return False
    return True


def variants(graph: Graph) -> Iterator[Named]:
    """Every variant of a graph of static shapes that can be run, and what was changed."""
    for node in graph.nodes:
        counts: dict[str, int] = {}
        for name, value in other_values(node):
            made = None
            if counts.get(name, 0) < PER_ATTRIBUTE:
                made = OtherAttribute(node, name, value).of(graph)
            if made is not None and runs(made):
                counts[name] = counts.get(name, 0) + 1
                yield f"with '{name}' of {node.label} {value}", made
    for what, changed in _other_operands(graph):
        made = changed.of(graph)
        if made is not None and runs(made):
            yield what, made
    for name in ("int32", "int64"):
        with np.errstate(all="ignore"):
            made = with_type(graph, np.dtype(name))
        if made is not None and runs(made):
            yield f"in {name}", made


def _other_operands(graph: Graph) -> Iterator[tuple[str, Rebuild]]:
    for constant in graph.constants():
        assert constant.const is not None
        for data in _other_data(constant.const):
            yield (
                f"'{constant.name}' {data.dtype.name}{list(data.shape)} {data.reshape(-1)[:8]}",
                OtherData(constant, data),
            )
    for value in graph.inputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if shape is None or not all(isinstance(size, int) for size in shape):
            continue
        for other in _other_shapes(tuple(int(size) for size in shape)):  # type: ignore[arg-type]
            yield f"'{value.name}' of shape {list(other)}", _OtherShape(value, other)


def other_integers(data: np.ndarray) -> Iterator[np.ndarray]:
    """Integers that say what a node does (axes, cuts, shapes), one changed at a time, and in the other order."""
    if data.dtype.kind in "iu" and 0 < data.size <= PARAMETER_ELEMENTS:
        flat, limits = data.reshape(-1), np.iinfo(data.dtype)
        for index in range(min(data.size, 4)):
            for number in (int(flat[index]) + 1, int(flat[index]) - 1):
                if limits.min <= number <= limits.max:
                    changed = flat.copy()
                    changed[index] = number
                    yield changed.reshape(data.shape)
        if data.size > 1:
            yield flat[::-1].reshape(data.shape).copy()


def _other_data(data: np.ndarray) -> Iterator[np.ndarray]:
    """Integers that say what a node does, one changed at a time; numbers that are no longer all the same or that
    broadcast otherwise.
    """
    yield from other_integers(data)
    if data.dtype.kind == "f" and data.size:
        spread = np.linspace(0.5, 1.5, 4, dtype=np.float64)
        if data.size > 1:
            factors = np.resize(spread, data.size).reshape(data.shape)
            yield (data.astype(np.float64) * factors).astype(data.dtype)
            yield np.full(data.shape, data.reshape(-1)[0], data.dtype)
            if data.ndim > 1:
                yield data.swapaxes(-1, -2).copy()
        else:
            yield np.full((*data.shape, 1), data.reshape(-1)[0], data.dtype)
            yield np.full((1, 1, 1, 1), data.reshape(-1)[0], data.dtype)
            for size in (2, 3, 4, 5):
                yield (np.float64(data.reshape(-1)[0]) * np.resize(spread, size)).astype(data.dtype)


def _other_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for axis, size in enumerate(shape):
        if size != 1:
            yield (*shape[:axis], 1, *shape[axis + 1 :])
    yield (2, *shape)
    if len(shape) > 1:
        yield shape[1:]
        yield (*shape[:-2], shape[-1], shape[-2])
