"""What a node's price depends on, in a comparable form: repeated blocks are priced once, measurements found again.

Names, positions and the contents of weights are not in it; operators, attributes, operand types, which operands are
constant, how operands repeat, and the bodies of fused nodes are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.operators import PARAMETER_ELEMENTS
from autofusion.ir.types import TensorType

_LABELS = frozenset({"rule"})
"""Attributes that say where a node comes from, not what it does."""


def signature(node: Node) -> str:
    """Hexadecimal digest of the node's structure: the same in every process, so it can be stored."""
    return hashlib.blake2b(repr(structure(node)).encode(), digest_size=16).hexdigest()


def structure(node: Node) -> Hashable:
    """The node's operator, attributes, operands and result types: equal for nodes that cost the same."""
    numbers: dict[Value, int] = {}
    operands = tuple(
        [
            None
            if value is None
            else (type_key(value), _constant(value.const), numbers.setdefault(value, len(numbers)))
            for value in node.inputs
        ]
    )
    return (node.op, _attributes(node), operands, tuple(map(type_key, node.outputs)))


def exact_structure(node: Node) -> Hashable:
    """Equal for nodes that are the same to whoever runs them, names aside: with ``structure``, the constants themselves
    (large ones by address: keep the node for as long as the key is used) and which results are used.
    """
    return (structure(node), tuple(_details(node)))


def _details(node: Node) -> Iterator[Hashable]:
    """What ``structure`` leaves out: weights, the sign of zeros, the types of numbers, uses."""
    for value in node.inputs:
        if value is not None and value.const is not None:
            yield _content(value.const)
    if len(node.outputs) > 1:
        yield tuple([value.use_count > 0 for value in node.outputs])
    for attribute in node.attrs.values():
        if isinstance(attribute, Graph):
            for inner in attribute.nodes:
                yield from _details(inner)
            yield tuple([_content(value.const) for value in attribute.outputs if value.const is not None])
        elif isinstance(attribute, int | float | list | tuple):
            yield repr(attribute)


def _content(data: np.ndarray) -> Hashable:
    small = data.size <= PARAMETER_ELEMENTS and data.dtype != object
    return data.tobytes() if small else id(data)


def type_key(value: Value) -> Hashable:
    """The type, a tensor's as a tuple: compared far more often than anything else here."""
    type_ = value.type
    return (type_.dtype, type_.shape) if isinstance(type_, TensorType) else type_


def _attributes(node: Node) -> Hashable:
    if not node.attrs:
        return ()
    return tuple((name, _attribute(node.attrs[name])) for name in sorted(node.attrs) if name not in _LABELS)


def _body(graph: Graph) -> Hashable:
    numbers = {value: index for index, value in enumerate(graph.inputs)}
    lines: list[Hashable] = [tuple(map(type_key, graph.inputs))]
    for node in graph.nodes:
        operands = tuple(
            None if v is None else numbers[v] if v.const is None else (type_key(v), _constant(v.const))
            for v in node.inputs
        )
        lines.append((node.op, _attributes(node), operands, tuple(map(type_key, node.outputs))))
        for value in node.outputs:
            numbers[value] = len(numbers)
    lines.append(tuple(numbers[v] if v.const is None else (type_key(v), _constant(v.const)) for v in graph.outputs))
    return tuple(lines)


def _constant(data: np.ndarray | None) -> Hashable:
    """None for what is computed, otherwise what matters of the data."""
    if data is None:
        return None
    if data.size == 1 or (data.dtype.kind in "iub" and data.size <= PARAMETER_ELEMENTS):
        return ("parameter", *data.reshape(-1).tolist())
    return "weights"


def _attribute(value: Any) -> Hashable:
    if isinstance(value, Graph):
        return _body(value)
    if isinstance(value, np.ndarray):
        content = tuple(value.reshape(-1).tolist()) if value.dtype == object else value.tobytes()
        return (str(value.dtype), value.shape, content)
    if isinstance(value, (list, tuple)):
        return tuple(_attribute(item) for item in value)
    return str(value) if isinstance(value, np.dtype) else value
