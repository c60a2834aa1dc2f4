"""A node's signature: what its price depends on. Repeated blocks are priced once, and measurements found again.

Names, positions and the contents of weights are not in it; operators, attributes, operand types, which operands are
constant, how operands repeat, and the bodies of fused nodes are. It is the same in every process.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph, Node, Value

_SMALL_INTEGERS = 64
"""Integer constants of at most so many elements are parameters (axes, shapes), which decide what the node does."""


def signature(node: Node) -> str:
    """Hexadecimal digest of the node's meaning and types."""
    return hashlib.blake2b(_describe(node, {}, outside=True).encode(), digest_size=16).hexdigest()


def _describe(node: Node, numbers: dict[Value, int], *, outside: bool) -> str:
    """Text of one node; ``numbers`` identifies values: the operands of a node by itself, all values of a body."""
    operands = []
    for value in node.inputs:
        if value is None:
            operands.append("-")
        elif value.const is not None:
            number = f"#{numbers.setdefault(value, len(numbers))}" if outside else ""
            operands.append(_constant(value.const) + number)
        else:
            label = f"%{numbers.setdefault(value, len(numbers))}"
            operands.append(f"{label}:{value.type}" if outside else label)
    attributes = ",".join(f"{name}={_attribute(node.attrs[name])}" for name in sorted(node.attrs) if name != "rule")
    results = ",".join(str(value.type) for value in node.outputs)
    return f"{node.op}({';'.join(operands)})[{attributes}]->{results}"


def _body(graph: Graph) -> str:
    numbers: dict[Value, int] = {}
    for value in graph.inputs:
        numbers[value] = len(numbers)
    lines = [",".join(str(value.type) for value in graph.inputs)]
    for node in graph.nodes:
        lines.append(_describe(node, numbers, outside=False))
        for value in node.outputs:
            numbers[value] = len(numbers)
    lines.append(",".join(_constant(v.const) if v.const is not None else str(numbers[v]) for v in graph.outputs))
    return "{" + "|".join(lines) + "}"


def _constant(data: np.ndarray) -> str:
    text = f"const {data.dtype}{list(data.shape)}"
    if data.size == 1 or (data.dtype.kind in "iub" and data.size <= _SMALL_INTEGERS):
        text += str(data.reshape(-1).tolist())
    return text


def _attribute(value: Any) -> str:
    if isinstance(value, Graph):
        return _body(value)
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()
        return f"{value.dtype}{list(value.shape)}{digest}" if value.dtype != object else str(value.tolist())
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_attribute(item) for item in value) + "]"
    return repr(value)
