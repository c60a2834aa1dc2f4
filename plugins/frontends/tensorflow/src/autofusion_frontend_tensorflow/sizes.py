"""What is known of a computed shape: numbers where they are constant, symbols where they are a dim of some value.

Models with a free batch compute their shapes by Shape, StridedSlice and Pack; most elements of such a vector are known.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.types import Dim

_DEPTH = 12


def known_dims(value: Value, depth: int = _DEPTH) -> tuple[Dim, ...] | None:
    """The elements of an integer scalar or vector as dims, None for each that is not known; None if nothing is."""
    if value.shape is not None and len(value.shape) > 1:
        return None
    if value.const is not None:
        return tuple(int(d) for d in value.const.reshape(-1)) if value.const.dtype.kind in "iu" else None
    node = value.producer
    if node is None or not depth or node.op not in _RULES or node.inputs[0] is None:
        return _length(value)
    found = _RULES[node.op](node, depth - 1)
    return _length(value) if found is None else found


def known_numbers(value: Value) -> np.ndarray | None:
    """The elements of an integer scalar or vector that is computed, if all are known: parts of a shape."""
    node, shape = value.producer, value.shape
    if node is None or node.op not in _RULES or shape is None or len(shape) > 1:
        return None
    if value.dtype is None or value.dtype.kind not in "iu":
        return None
    dims = known_dims(value)
    if dims is None or not all(isinstance(d, int) for d in dims):
        return None
    return np.asarray(dims, value.dtype).reshape(() if not shape else (-1,))


def _length(value: Value) -> tuple[Dim, ...] | None:
    if value.shape == ():
        return (None,)
    if value.shape is not None and len(value.shape) == 1 and isinstance(value.shape[0], int):
        return (None,) * value.shape[0]
    return None


def _same(node: Node, depth: int) -> tuple[Dim, ...] | None:
    assert node.inputs[0] is not None
    return known_dims(node.inputs[0], depth)


def _shape(node: Node, depth: int) -> tuple[Dim, ...] | None:
    assert node.inputs[0] is not None
    dims = node.inputs[0].shape
    return None if dims is None else dims[node.attr("start", 0) : node.attr("end")]


def _concat(node: Node, depth: int) -> tuple[Dim, ...] | None:
    parts = [known_dims(v, depth) if v is not None else None for v in node.inputs]
    return None if any(p is None for p in parts) else tuple(d for p in parts for d in p or ())


def _ints(value: Value | None) -> list[int] | None:
    return None if value is None or value.const is None else [int(x) for x in value.const.reshape(-1)]


def _slice(node: Node, depth: int) -> tuple[Dim, ...] | None:
    dims = _same(node, depth)
    bounds = [_ints(node.operand(i)) for i in (1, 2)]
    steps = _ints(node.operand(4)) if node.operand(4) is not None else [1]
    if dims is None or any(b is None or len(b) != 1 for b in (*bounds, steps)):
        return None
    (start, end), step = (b[0] for b in bounds if b), (steps or [1])[0]
    return dims[slice(start, end, step)] if step > 0 else None


def _gather(node: Node, depth: int) -> tuple[Dim, ...] | None:
    dims, indices = _same(node, depth), _ints(node.operand(1))
    if dims is None or indices is None or any(not -len(dims) <= i < len(dims) for i in indices):
        return None
    return tuple(dims[i] for i in indices)


_RULES = {
    "Cast": _same,
    "Concat": _concat,
    "Gather": _gather,
    "Identity": _same,
    "Reshape": _same,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _same,
    "Unsqueeze": _same,
}
