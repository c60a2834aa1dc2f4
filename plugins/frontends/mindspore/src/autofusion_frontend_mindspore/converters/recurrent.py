"""Recurrent layers: one layer in one direction a node, with all weights in one flat tensor."""

from __future__ import annotations

from typing import Any

from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter

_ONNX_GATES = (0, 3, 1, 2)
"""MindSpore has the gates in the order i, f, g, o; ONNX in the order i, o, f, c."""


@converter("LSTM")
def lstm(call: Call) -> tuple[Any, ...]:
    """(x, h, c, weights) -> (y, h, c, two that only training uses).

    The weights are those of the input, of the recurrence, and one bias, one after the other.
    """
    value, hidden, cell, flat = (call.tensor(i) for i in range(4))
    for name, only in (("num_layers", 1), ("bidirectional", False), ("proj_size", 0)):
        if call.attrs.get(name, only) != only:
            call.fail(f"attribute '{name}' is {call.attrs[name]!r}; only {only!r} runs on a CPU")
    size, width = int(call.attrs["hidden_size"]), int(call.attrs["input_size"])
    flat = call.emit("Reshape", flat, call.ints([-1]))
    weights = _gates(call, flat, 0, [4 * size, width])
    recurrence = _gates(call, flat, 4 * size * width, [4 * size, size])
    bias = None
    if call.attrs.get("has_bias", True):
        stored = _gates(call, flat, 4 * size * (width + size), [4 * size])
        zeros = call.emit("Mul", stored, call.like(0, stored))
        bias = call.emit("Unsqueeze", call.emit("Concat", stored, zeros, axis=0), call.ints([0]))
    operands = [
        value,
        *(call.emit("Unsqueeze", w, call.ints([0])) for w in (weights, recurrence)),
        bias,
        None,
        hidden,
        cell,
    ]
    result, last, state = call.node("LSTM", operands, {"hidden_size": size}, outputs=3).outputs
    result = call.emit("Squeeze", result, call.ints([1]))
    spare = len(call.declared) - 3 if isinstance(call.declared, tuple) else 0
    return (result, last, state, *[None] * spare)


def _gates(call: Call, flat: Value, begin: int, shape: list[int]) -> Value:
    """A part of the flat weights as a tensor of ``shape``, its gates in ONNX's order."""
    count = 1
    for size in shape:
        count *= size
    part = call.emit("Slice", flat, call.ints([begin]), call.ints([begin + count]), call.ints([0]))
    hidden = shape[0] // 4
    part = call.emit("Reshape", part, call.ints([4, hidden, *shape[1:]]))
    part = call.emit("Gather", part, call.ints(_ONNX_GATES), axis=0)
    return call.emit("Reshape", part, call.ints(shape))
