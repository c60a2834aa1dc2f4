"""Recurrent layers: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import OpClass, Operator, Work, attribute, register, traffic
from autofusion.ir.types import Dim, Type

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
"""Gates of a cell: the weights hold this many blocks of ``hidden_size`` rows."""


def _infer_recurrent(node: Node) -> Sequence[Type | None]:
    """Y [seq, directions, batch, hidden], then Y_h (and Y_c) [directions, batch, hidden]; batch first in layout 1."""
    dtype = shapes.same_dtype(node, (0, 1, 2, 3))
    dims, recurrence = shapes.rank_is(node, 0, 3), shapes.rank_is(node, 2, 3)
    direction = attribute(node, "direction")
    if direction not in ("forward", "reverse", "bidirectional"):
        shapes.fail(node, f"'direction' must be forward, reverse or bidirectional, found '{direction}'")
    directions = 2 if direction == "bidirectional" else 1
    hidden: Dim = attribute(node, "hidden_size")
    if recurrence is not None:
        hidden = shapes.agree(node, hidden, recurrence[2], "'hidden_size' and the last axis of the recurrence weights")
        shapes.agree(node, directions, recurrence[0], f"directions of '{direction}' and of the recurrence weights")
    weights = shapes.rank_is(node, 1, 3)
    if weights is not None:
        rows = shapes.scaled(hidden, GATES[node.op])
        shapes.agree(node, rows, weights[1], f"{GATES[node.op]} gates of the hidden size and rows of the weights")
        if dims is not None:
            shapes.agree(node, dims[2], weights[2], "the last axes of operand and weights")
    batch_first = attribute(node, "layout")
    steps: Dim = None
    batch: Dim = None
    if dims is not None:
        steps, batch = (dims[1], dims[0]) if batch_first else dims[:2]
    whole = (batch, steps, directions, hidden) if batch_first else (steps, directions, batch, hidden)
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    return shapes.of(dtype, whole), shapes.of(dtype, state), shapes.of(dtype, state)


def _work_recurrent(node: Node) -> Work:
    """Two matrix products and the gates' activations for each step, direction and sequence."""
    x, weights, recurrence = node.inputs[0], node.inputs[1], node.inputs[2]
    assert x is not None and weights is not None and recurrence is not None
    steps = x.tensor.static_shape[0] * x.tensor.static_shape[1]
    gates = weights.tensor.static_shape[0] * weights.tensor.static_shape[1]
    hidden = recurrence.tensor.static_shape[2]
    flops = steps * gates * (2.0 * (weights.tensor.static_shape[2] + hidden) + 4.0)
    return Work(flops, *traffic(node), float(steps * gates))


def _register() -> None:
    common = {
        "activation_alpha": None,
        "activation_beta": None,
        "activations": None,
        "clip": None,
        "direction": "forward",
        "hidden_size": None,
        "layout": 0,
    }
    for name, inputs, outputs, own in (
        ("RNN", 6, 2, {"activations": ("Tanh", "Tanh")}),
        ("GRU", 6, 2, {"linear_before_reset": 0}),
        ("LSTM", 8, 3, {"input_forget": 0}),
    ):
        register(
            Operator(
                name,
                OpClass.CONTRACTION,
                _infer_recurrent,
                3,
                inputs,
                outputs=0,
                max_outputs=outputs,
                attributes={**common, **own},
                work=_work_recurrent,
            )
        )


_register()
