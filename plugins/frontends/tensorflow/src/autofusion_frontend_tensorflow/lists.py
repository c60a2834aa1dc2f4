"""TensorFlow's lists of tensors (TensorList, TensorArray) as what they are in the IR: one tensor with a leading axis.

A list that is only reserved has no elements yet, and often not even their shape: it is a ``Reserved`` until the first
element is set, or until a loop that fills it from front to back makes it a scan result.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion.ir.types import Dim, Shape, TensorType
from autofusion_frontend_tensorflow.bodies import argument_index
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.source import Body, Ref

AWARE: set[str] = set()
"""Operators whose converters take a Reserved; for all others it is filled with zeros first."""


class Reserved(Value):
    """A list of ``size`` (a scalar) elements that were not set yet. It never becomes an operand of an IR node."""

    __slots__ = ("dims", "element", "size")

    def __init__(self, name: str, size: Value, element: np.dtype, dims: Shape | None) -> None:
        super().__init__(name, TensorType(element, None if dims is None else (None, *dims)))
        self.size = size
        self.element = element
        self.dims = dims


def filled(call: Call, value: Value, like: Value | None = None) -> Value:
    """The list as a tensor: zeros if it is only reserved. ``like``: of an element's type, for what is not stated."""
    if not isinstance(value, Reserved):
        return value
    dims: Shape | None = value.dims
    if like is not None and (dims is None or not all(isinstance(d, int) for d in dims)):
        dims = _merged(dims, like.shape)
    sizes = [call.vector(value.size), *(_size(call, d, like, axis) for axis, d in enumerate(dims or ()))]
    if dims is None or any(s is None for s in sizes):
        call.fail(
            f"the list '{value.name}' is used before anything says the shape of its elements; save the model with "
            "static shapes"
        )
    shape = call.emit("Concat", *sizes, axis=0)
    return call.emit("ConstantOfShape", shape, value=np.zeros(1, value.element))


def _size(call: Call, dim: Dim, like: Value | None, axis: int) -> Value | None:
    """A dim as a vector of one number: a symbol is the size of some value that has it, else ``like`` has it."""
    if isinstance(dim, int):
        return call.ints([dim])
    if dim is not None:
        for value in call.graph.values():
            if value.shape is not None and dim in value.shape:
                return call.dim(value, value.shape.index(dim))
    if like is not None and like.shape is not None and any(v is like for v in call.graph.values()):
        return call.dim(like, axis)
    return None


def _merged(dims: Shape | None, other: Shape | None) -> tuple[Dim, ...] | None:
    if dims is None or other is None or len(dims) != len(other):
        return other if dims is None else dims
    return tuple(a if isinstance(a, int) else b for a, b in zip(dims, other, strict=True))


_SETS = {
    "TensorListSetItem": (0, 2),
    "TensorArrayWriteV3": (3, 2),
    "TensorArrayWriteV2": (3, 2),
    "TensorListPushBack": (0, 1),
}


def item_set(body: Body, index: int) -> Ref | None:
    """What the body puts into the list that is argument ``index``, wherever it does."""
    for node in body.nodes.values():
        if node.op in _SETS:
            place, item = _SETS[node.op]
            if argument_index(body, node.inputs[place]) == index:
                return node.inputs[item]
    return None
