"""A recurrent node as the kernels see it: sizes, directions, activations, and the cells that a step is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.recurrent import cells, kernel
from autofusion_kernels_cpu.recurrent.activation import Activation, activations
from autofusion_kernels_cpu.support import constant, static
from autofusion_kernels_cpu.unsupported import Unsupported

_DEFAULTS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True, slots=True)
class Layer:
    """A recurrent node with static shapes; `parts` are the cells of a step and the gates whose weights each has."""

    op: str
    time: int
    batch: int
    inputs: int
    hidden: int
    reverse: tuple[bool, ...]
    batch_first: bool
    functions: tuple[tuple[Activation, ...], ...]
    parts: tuple[tuple[kernel.Cell, slice], ...]
    lanes: int

    @property
    def gates(self) -> int:
        return _GATES[self.op]

    @property
    def blocks(self) -> int:
        return -(-self.hidden // self.lanes)

    @property
    def width(self) -> int:
        """Elements of a row of states in scratch."""
        return self.blocks * self.lanes

    @property
    def scratch(self) -> dict[str, int]:
        """Where each piece of scratch starts, in bytes, and the `end`."""
        state = self.batch * self.width
        sizes = {"gates": self.time * self.batch * self.gates * self.width, "h0": state, "h1": state, "c": state}
        sizes["side"] = 2 * state if len(self.parts) > 1 else 0
        places, at = {}, 0
        for name, size in sizes.items():
            places[name] = at
            at += size * 4
        return places | {"end": at}


def layer_of(node: Node, lanes: int) -> Layer | Refusal:
    """The layer in a node, or why these kernels do not run it."""
    x, r = static(node, 0), static(node, 2)
    if x is None or r is None or any(v is not None and static(node, i) is None for i, v in enumerate(node.inputs)):
        return Refusal("its shapes are not static")
    if x.dtype != np.float32:
        return Refusal(f"it computes in {x.dtype}, only float32 is supported")
    for index, name in ((1, "W"), (2, "R"), (3, "B"), (7, "P")):
        if node.operand(index) is not None and constant(node, index) is None:
            return Refusal(f"its operand '{name}' is not constant")
    if node.attr("input_forget", 0):
        return Refusal("it couples its input and forget gates")
    directions, _, hidden = r.static_shape
    batch_first = bool(node.attr("layout", 0))
    time, batch, inputs = x.static_shape
    if batch_first:
        time, batch = batch, time
    if not time:
        return Refusal("its sequences have no steps")
    try:
        functions = activations(node, _DEFAULTS[node.op], directions)
    except Unsupported as no:
        return no.refusal
    direction = node.attr("direction") or "forward"
    reverse = (False, True) if direction == "bidirectional" else (direction == "reverse",)
    every = slice(0, _GATES[node.op])
    parts: tuple[tuple[kernel.Cell, slice], ...]
    if node.op == "LSTM":
        parts = ((cells.LSTM if node.operand(7) is None else cells.LSTM_PEEPHOLES, every),)
    elif node.op == "RNN":
        parts = ((cells.RNN, every),)
    elif node.attr("linear_before_reset", 0):
        parts = ((cells.GRU_RESET_AFTER, every),)
    else:
        parts = ((cells.GRU_GATES, slice(0, 2)), (cells.GRU_CANDIDATE, slice(2, 3)))
    return Layer(node.op, time, batch, inputs, hidden, reverse, batch_first, tuple(functions), parts, lanes)
