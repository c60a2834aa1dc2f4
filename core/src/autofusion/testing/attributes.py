"""Other values of a node's attributes: every attribute of the operator's schema, whether a rule speaks of it or not.

What a rule forgets to look at is what its author did not think of, so the values come from the schema, not from the
rule. Values that do not go with the operands are left to inference to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from autofusion.ir import operators
from autofusion.ir.graph import Graph, Node
from autofusion.ir.types import TensorType

_TEXTS: dict[str, tuple[str, ...]] = {
    "approximate": ("none", "tanh"),
    "auto_pad": ("NOTSET", "SAME_UPPER", "VALID"),
    "coordinate_transformation_mode": ("half_pixel", "asymmetric", "align_corners"),
    "direction": ("forward", "reverse"),
    "mode": ("constant", "edge", "nearest", "linear", "DCR", "CRD", "bilinear"),
    "nearest_mode": ("round_prefer_floor", "floor"),
    "padding_mode": ("zeros", "border"),
    "reduction": ("none", "add", "mean", "sum"),
}
"""What an attribute that names a way of working may say."""
_NOT_DRAWN = frozenset({"layout", "seed", "stash_type", "training_mode", "dtype"})
"""Attributes without a meaning that another value could change, or that change which results there are."""
_TYPES = tuple(np.dtype(t) for t in (np.float32, np.float16, np.float64, np.int32))


def values(op: str, name: str, rank: int, default: Any) -> list[Any]:
    """Values to try for attribute ``name`` of ``op``, the first operand of which has ``rank`` axes; ``default`` is what
    holds if it is not stated.
    """
    space = max(rank - 2, 1)
    lists: dict[str, list[Any]] = {
        "axis": [-1, 0, 1, 2],
        "axes": [[-1], [0], [1]],
        "block_size": [2],
        "blocksize": [2],
        "dilations": [[2] * space],
        "epsilon": [1e-5, 1e-2],
        "group": [1, 2, 3, 4],
        "kernel_shape": [[2] * space, [3] * space],
        "num_groups": [1, 2],
        "output_padding": [[1] * space],
        "pads": [[1] * 2 * space, [*[0] * space, *[1] * space]],
        "perm": [list(range(rank))[::-1], [*range(1, rank), 0], [*range(rank - 2), rank - 1, rank - 2]],
        "size": [3],
        "strides": [[2] * space, [1] * (space - 1) + [2]],
        "to": list(_TYPES),
    }
    if name in lists:
        return lists[name]
    if name in _TEXTS:
        return list(_TEXTS[name])
    if name in _NOT_DRAWN or name in operators.DTYPE_ATTRIBUTES:
        return []
    if isinstance(default, float):
        return [default, default * 2 + 0.25, 0.5, -default]
    return [0, 1] if isinstance(default, int) else []


def other_values(node: Node) -> Iterator[tuple[str, Any]]:
    """(attribute, another value than the node has), for every attribute of the node's schema."""
    schema = operators.find(node.op)
    first = next((v for v in node.inputs if v is not None), None)
    rank = len(first.type.shape or ()) if first is not None and isinstance(first.type, TensorType) else 0
    for name, default in {} if schema is None else schema.attributes.items():
        now = node.attrs.get(name, default)
        if isinstance(now, Graph):
            continue
        stated = None if default is operators.REQUIRED else default
        given = list(now) if isinstance(now, (list, tuple)) else now
        for value in values(node.op, name, rank, stated):
            if value != given:
                yield name, value
