"""Primitives that join tensors; they take a tuple of them."""

from __future__ import annotations

from typing import Any

from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter


def _joined(call: Call) -> tuple[list[Value], int]:
    values = [call.cast(v, call.result_dtype()) for v in call.tensors(0)]
    if not values:
        call.fail("it joins no tensors")
    return values, int(call.argument(1, "axis", call.attrs.get("dim", 0)))


@converter("Concat", "SequenceConcat")
def concat(call: Call) -> Value:
    """Along an axis."""
    values, axis = _joined(call)
    return values[0] if len(values) == 1 else call.emit("Concat", *values, axis=axis)


@converter("Stack", "StackExt", "SequenceStack")
def stack(call: Call) -> Value:
    """Along a new axis."""
    values, axis = _joined(call)
    if axis < 0:
        axis += call.rank(values[0]) + 1
    made = [call.emit("Unsqueeze", value, call.ints([axis])) for value in values]
    return made[0] if len(made) == 1 else call.emit("Concat", *made, axis=axis)


@converter("Meshgrid")
def meshgrid(call: Call) -> tuple[Value, ...]:
    """A grid for each vector, along its own axis; `xy` swaps the first two."""
    values = call.tensors(0)
    indexing = call.argument(1, "indexing", "xy")
    order = list(range(len(values)))
    if indexing in ("xy", 1) and len(values) > 1:
        order[0], order[1] = 1, 0
    sizes: list[Any] = [0] * len(values)
    for position, value in zip(order, values, strict=True):
        sizes[position] = call.static_dim(value, 0)
    results = []
    for position, value in zip(order, values, strict=True):
        shape = [1] * len(values)
        shape[position] = -1
        column = call.emit("Reshape", value, call.ints(shape))
        results.append(call.emit("Expand", column, call.ints(sizes)))
    return tuple(results)
