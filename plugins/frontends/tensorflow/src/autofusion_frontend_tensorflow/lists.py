"""TensorFlow's lists of tensors (TensorList, TensorArray) as what they are in the IR: one tensor with a leading axis.

A list that is only reserved has no elements yet, and often not even their shape: it is a ``Reserved`` until the first
element is set, or until a loop that fills it from front to back makes it a scan result.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion.ir.types import Dim, Shape, TensorType
from autofusion_frontend_tensorflow.call import Call

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
    """The list as a tensor: zeros if it is only reserved. ``like``: an element, where the list does not say its shape."""
    if not isinstance(value, Reserved):
        return value
    dims: Shape | None = value.dims
    if like is not None and (dims is None or not all(isinstance(d, int) for d in dims)):
        dims = _merged(dims, like.shape)
        if dims is not None and not all(isinstance(d, int) for d in dims):
            shape = call.emit("Concat", call.vector(value.size), call.shape(like), axis=0)
            return call.emit("ConstantOfShape", shape, value=np.zeros(1, value.element))
    if dims is None or not all(isinstance(d, int) for d in dims):
        call.fail(
            f"the list '{value.name}' is used before anything says the shape of its elements; save the model with "
            "static shapes"
        )
    shape = call.emit("Concat", call.vector(value.size), call.ints([int(d) for d in dims]), axis=0)  # type: ignore[arg-type]
    return call.emit("ConstantOfShape", shape, value=np.zeros(1, value.element))


def _merged(dims: Shape | None, other: Shape | None) -> tuple[Dim, ...] | None:
    if dims is None or other is None or len(dims) != len(other):
        return other if dims is None else dims
    return tuple(a if isinstance(a, int) else b for a, b in zip(dims, other, strict=True))
