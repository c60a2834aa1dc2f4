"""Shapes: asking for them, changing them, and making tensors of a given one."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


@converter("Shape")
def shape(call: Call) -> Value:
    """The type of the numbers is an attribute."""
    return call.cast(call.shape(call.operand(0)), call.dtype_attr("out_type", np.int32))


@converter("ShapeN")
def shapes(call: Call) -> list[Value]:
    """The shape of each operand."""
    return [call.cast(call.shape(v), call.dtype_attr("out_type", np.int32)) for v in call.inputs]


@converter("Rank")
def rank(call: Call) -> Value:
    """Number of axes."""
    x = call.operand(0)
    if x.shape is not None:
        return call.const(len(x.shape), np.int32)
    return call.cast(call.emit("Size", call.emit("Shape", x)), np.int32)


@converter("Size")
def size(call: Call) -> Value:
    """Number of elements."""
    x, to = call.operand(0), call.dtype_attr("out_type", np.int32)
    if x.shape is not None and all(isinstance(d, int) for d in x.shape):
        return call.const(np.prod([d for d in x.shape if isinstance(d, int)], dtype=np.int64), to)
    return call.cast(call.emit("Size", x), to)


@converter("Reshape")
def reshape(call: Call) -> Value:
    """A 0 in the target is a size of 0, not a copy."""
    return call.reshape(call.operand(0), call.as_ints(call.operand(1)))


@converter("Squeeze")
def squeeze(call: Call) -> Value:
    """Without a list of axes: all of size 1."""
    x = call.operand(0)
    axes = [int(a) for a in call.attr("squeeze_dims", call.attr("axis", []))]
    if axes:
        count = call.rank(x)
        return call.squeeze(x, *(call.axis(a, count) for a in axes))
    if x.shape is not None and not any(d is None or isinstance(d, str) for d in x.shape):
        return call.squeeze(x, *(i for i, d in enumerate(x.shape) if d == 1))
    return call.emit("Squeeze", x)


@converter("ExpandDims")
def expand_dims(call: Call) -> Value:
    """One new axis."""
    x = call.operand(0)
    return call.unsqueeze(x, call.axis(call.known_int(1, "axis"), call.rank(x) + 1))


@converter("BroadcastTo")
def broadcast_to(call: Call) -> Value:
    """The IR's Expand, but that a size of the target is never smaller."""
    return call.emit("Expand", call.operand(0), call.as_ints(call.operand(1)))


@converter("BroadcastArgs")
def broadcast_args(call: Call) -> Value:
    """The shape that two shapes broadcast to."""
    a, b = (call.as_ints(call.operand(i)) for i in range(2))
    if a.const is not None and b.const is not None:
        return call.const(np.broadcast_shapes(tuple(a.const), tuple(b.const)), call.dtype(call.operand(0)))
    ones = [call.emit("Expand", call.ints(1), v) for v in (a, b)]
    return call.cast(call.emit("Shape", call.emit("Add", *ones)), call.dtype(call.operand(0)))


@converter("Fill")
def fill(call: Call) -> Value:
    """Operands: shape, value."""
    dims, value = call.as_ints(call.operand(0)), call.operand(1)
    if value.const is not None and value.const.dtype != object:
        return call.emit("ConstantOfShape", dims, value=value.const.reshape(1))
    return call.emit("Expand", value, dims)


@converter("Empty")
def empty(call: Call) -> Value:
    """What is in it may be anything: zeros."""
    return call.emit(
        "ConstantOfShape", call.as_ints(call.operand(0)), value=np.zeros(1, call.dtype_attr("dtype", "f4"))
    )


@converter("Range")
def range_(call: Call) -> Value:
    """Operands: start, limit, step."""
    return call.emit("Range", *(call.operand(i) for i in range(3)))


@converter("LinSpace")
def lin_space(call: Call) -> Value:
    """Operands: start, stop, number of points; the last point is the stop itself."""
    start, stop, count = (call.operand(i) for i in range(3))
    number = call.known_int(2, "number of points")
    if number == 1:
        return call.unsqueeze(start, 0)
    if start.const is not None and stop.const is not None:
        dtype = call.dtype(start)
        step = (stop.const - start.const) / dtype.type(number - 1)
        points = start.const + step * np.arange(number).astype(dtype)
        points[-1] = stop.const
        return call.const(points.astype(dtype))
    steps = call.const(np.arange(number) / (number - 1), call.dtype(start))
    del count
    return call.emit("Add", start, call.emit("Mul", steps, call.emit("Sub", stop, start)))


@converter("InvertPermutation")
def invert_permutation(call: Call) -> Value:
    """A constant permutation."""
    data = call.known(0, "permutation")
    return call.const(np.argsort(data), data.dtype)
