"""Inputs that index tables: how many rows the table has, so that made-up indices reach all of them."""

from __future__ import annotations

from collections.abc import Mapping

from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.types import TensorType

KEEPING = frozenset({"Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice"})
"""Operators whose first operand keeps its elements: what comes of an index is an index still."""
DEFAULT_AXES: Mapping[str, int] = {"Gather": 0, "GatherElements": 0, "ScatterElements": 0}
"""Operators whose second operand indexes an axis of the first -> the axis, if none is stated."""


def table_sizes(graph: Graph) -> dict[str, int]:
    """Input name -> the size of the smallest table that it indexes, for the inputs that do."""
    return {value.name: size for value in graph.inputs if (size := _smallest(value)) is not None}


def _smallest(value: Value) -> int | None:
    """The size of the smallest table that ``value`` indexes, or None if it is not seen to index one of known size."""
    found: list[int] = []
    seen: set[Value] = set()
    stack = [value]
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        for node in one.consumers:
            if node.op in KEEPING and node.inputs[0] is one:
                stack += node.outputs
            size = _table(node, one)
            if size:
                found.append(size)
    return min(found, default=None)


def _table(node: Node, index: Value) -> int | None:
    if node.op not in DEFAULT_AXES or len(node.inputs) < 2 or node.inputs[1] is not index:
        return None
    data = node.inputs[0]
    shape = data.type.shape if data is not None and isinstance(data.type, TensorType) else None
    if shape is None:
        return None
    axis = node.attr("axis", DEFAULT_AXES[node.op])
    size = shape[axis] if -len(shape) <= axis < len(shape) else None
    return size if isinstance(size, int) else None
