"""TensorFlow's lists of tensors (TensorList, TensorArray) as what they are in the IR: one tensor with a leading axis.

A list that is only reserved has no elements yet, and often not even their shape: it is a ``Reserved`` until the first
element is set, or until a loop that fills it from front to back makes it a scan result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.graph import Value
from autofusion.ir.types import Dim, Shape, TensorType
from autofusion_frontend_tensorflow.bodies import BodyBuilder
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.source import Body

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


class Probe(Reserved):
    """A list in a body that is imported aside, only to see what it is set to (``like``)."""

    __slots__ = ("like",)

    def __init__(self, reserved: Reserved) -> None:
        super().__init__(reserved.name, reserved.size, reserved.element, reserved.dims)
        self.like: Value | None = None


def filled(call: Call, value: Value, like: Value | None = None) -> Value:
    """The list as a tensor: zeros if it is only reserved. ``like``: of an element's type, for what is not stated."""
    if not isinstance(value, Reserved):
        return value
    if isinstance(value, Probe):
        value.like = value.like or like
    dims: Shape | None = value.dims
    if like is not None and (dims is None or not all(isinstance(d, int) for d in dims)):
        dims = _merged(dims, like.shape)
    if dims is None and isinstance(value, Probe):
        return _unknown(call, value.element)
    size = value.size.const
    sizes = [call.vector(value.size), *(_size(call, d, like, axis) for axis, d in enumerate(dims or ()))]
    if size is not None and not size.any():  # no element yet: sizes that are not known do not matter
        sizes = [call.ints([0]) if s is None else s for s in sizes]
    if dims is None or any(s is None for s in sizes):
        if isinstance(value, Probe):
            return _unknown(call, value.element)
        call.fail(
            f"the list '{value.name}' is used before anything says the shape of its elements; save the model with "
            "static shapes"
        )
    shape = call.emit("Concat", *sizes, axis=0)
    return call.emit("ConstantOfShape", shape, value=np.zeros(1, value.element))


def _unknown(call: Call, element: np.dtype) -> Value:
    """A tensor of which nothing is known but the type of its elements. For bodies that are only imported aside."""
    some = call.node("Reshape", [call.node("NonZero", [call.const([True])]).output, call.ints([-1])]).output
    return call.node("ConstantOfShape", [some], {"value": np.zeros(1, element)}).output


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


def tensors(
    call: Call,
    bodies: Sequence[Body],
    operands: Sequence[Value],
    indices: Sequence[int],
    like: Mapping[int, Value] | None = None,
) -> dict[int, Value]:
    """The reserved lists ``indices`` among ``operands`` as tensors.

    Their elements are like those that are known (``like``), or like those that one of ``bodies`` sets.
    """
    found = dict(like or {})
    for body in bodies:
        if any(not _stated(operands[i], found.get(i)) for i in indices):
            found = {**_elements_like(call, body, operands), **found}
    return {i: filled(call, operands[i], found.get(i)) for i in indices}


def _stated(value: Value, like: Value | None) -> bool:
    """True if the sizes of an element are known without a look into bodies."""
    dims = value.dims if isinstance(value, Reserved) else value.shape
    return like is not None or (dims is not None and all(isinstance(d, int) for d in dims))


def _elements_like(call: Call, body: Body, operands: Sequence[Value]) -> dict[int, Value]:
    """For the lists among ``operands`` that are only reserved: a value like the elements that ``body``, or a body
    inside it, sets in them. Found by importing the body aside.
    """
    builder = BodyBuilder(call, "aside")
    probes: dict[int, Probe] = {}
    stand_ins: list[Value] = []
    for i, value in enumerate(operands):
        if isinstance(value, Reserved):
            stand_ins.append(probes.setdefault(i, Probe(value)))
        elif value.const is not None:
            stand_ins.append(builder.graph.constant(value.const))
        else:
            stand_ins.append(builder.input(f"in.{i}", value.type))
    try:
        builder.run(body, stand_ins, f"{call.name}/aside")
    except ModelError:
        pass  # some operator must know what is not known yet; what was set before it counts
    for i, probe in probes.items():
        outer = operands[i]
        if isinstance(outer, Probe):
            outer.like = outer.like or probe.like
    return {i: probe.like for i, probe in probes.items() if probe.like is not None}
