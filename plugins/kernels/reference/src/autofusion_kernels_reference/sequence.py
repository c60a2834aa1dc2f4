"""Sequences (Python lists of arrays) and optionals (the value, or None)."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, normal_axis, optional


def _position(index: Any, size: int, *, end: bool = False) -> int:
    """A position in a sequence of ``size`` elements; ``end`` allows the place after the last."""
    position = integers(index)[0]
    limit = size + (1 if end else 0)
    if not -size <= position < limit:
        raise IndexError(f"position {position} is out of range for a sequence of {size}")
    return position + size if position < 0 else position


def _at(node: Node, inputs: Inputs) -> list[Any]:
    return [inputs[0][_position(inputs[1], len(inputs[0]))]]


def _erase(node: Node, inputs: Inputs) -> list[Any]:
    sequence, index = list(inputs[0]), optional(inputs, 1)
    del sequence[len(sequence) - 1 if index is None else _position(index, len(sequence))]
    return [sequence]


def _insert(node: Node, inputs: Inputs) -> list[Any]:
    sequence, index = list(inputs[0]), optional(inputs, 2)
    sequence.insert(len(sequence) if index is None else _position(index, len(sequence), end=True), inputs[1])
    return [sequence]


def _concat(node: Node, inputs: Inputs) -> list[Any]:
    axis = node.attrs["axis"]
    return [np.stack(inputs[0], axis) if node.attr("new_axis", 0) else np.concatenate(inputs[0], axis)]


def _split(node: Node, inputs: Inputs) -> list[Any]:
    x, sizes = inputs[0], optional(inputs, 1)
    axis = normal_axis(node.attr("axis", 0), x.ndim)
    length = x.shape[axis]
    if sizes is None:
        parts = [np.take(x, [i], axis) for i in range(length)]
        return [parts if node.attr("keepdims", 1) else [np.squeeze(p, axis) for p in parts]]
    if np.ndim(sizes) == 0:
        chunk = int(sizes)
        if chunk <= 0:
            raise ValueError(f"parts of size {chunk} do not make up {length} elements along axis {axis}")
        points = list(range(chunk, length, chunk))
    else:
        each = integers(sizes)
        if sum(each) != length or min(each, default=0) < 0:
            raise ValueError(f"parts of sizes {each} do not make up {length} elements along axis {axis}")
        points = np.cumsum(each)[:-1].tolist()
    return [np.split(x, points, axis)]


def _construct(node: Node, inputs: Inputs) -> list[Any]:
    return [list(inputs)]


def _empty(node: Node, inputs: Inputs) -> list[Any]:
    return [[]]


def _length(node: Node, inputs: Inputs) -> list[Any]:
    return [np.array(len(inputs[0]), np.int64)]


def _optional(node: Node, inputs: Inputs) -> list[Any]:
    return [optional(inputs, 0)]


def _get(node: Node, inputs: Inputs) -> list[Any]:
    if inputs[0] is None:
        raise ValueError("the optional is empty")
    return [inputs[0]]


def _has(node: Node, inputs: Inputs) -> list[Any]:
    return [np.array(optional(inputs, 0) is not None)]


OPS: dict[str, OpFunction] = {
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalGetElement": _get,
    "OptionalHasElement": _has,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
