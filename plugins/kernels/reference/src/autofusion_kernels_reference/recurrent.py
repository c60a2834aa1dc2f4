"""RNN, GRU and LSTM: both directions, sequence lengths, peepholes, clipping, and every activation there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.pointwise import sigmoid, softplus
from autofusion_kernels_reference.support import Inputs, OpFunction, optional, wide

Activation = Callable[[np.ndarray], np.ndarray]

# name -> (function of x, alpha, beta; default alpha; default beta)
_ACTIVATIONS: dict[str, tuple[Callable[[np.ndarray, float, float], np.ndarray], float, float]] = {
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "elu": (lambda x, a, b: np.where(x < 0, a * np.expm1(x), x), 1.0, 0.0),
    "hardsigmoid": (lambda x, a, b: np.minimum(np.maximum(a * x + b, 0), 1), 0.2, 0.5),
    "leakyrelu": (lambda x, a, b: np.where(x < 0, a * x, x), 0.01, 0.0),
    "relu": (lambda x, a, b: np.maximum(x, 0), 0.0, 0.0),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "sigmoid": (lambda x, a, b: sigmoid(x), 0.0, 0.0),
    "softplus": (lambda x, a, b: softplus(x), 0.0, 0.0),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), 0.0, 0.0),
    "tanh": (lambda x, a, b: np.tanh(x), 0.0, 0.0),
    "thresholdedrelu": (lambda x, a, b: np.where(x > a, x, 0), 1.0, 0.0),
}
_TAKES_ALPHA = {"affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu"}
_TAKES_BETA = {"affine", "hardsigmoid", "scaledtanh"}


def _activations(node: Node, defaults: list[str], directions: int) -> list[list[Activation]]:
    """The gate functions of each direction; ``activation_alpha`` and ``_beta`` go in order to those that take one."""
    names = list(node.attr("activations") or defaults * directions)
    alphas, betas = list(node.attr("activation_alpha") or []), list(node.attr("activation_beta") or [])
    made: list[Activation] = []
    for name in (n.lower() for n in names):
        if name not in _ACTIVATIONS:
            raise ValueError(f"unknown activation '{name}'; expected one of {', '.join(_ACTIVATIONS)}")
        f, alpha, beta = _ACTIVATIONS[name]
        if name in _TAKES_ALPHA and alphas:
            alpha = float(alphas.pop(0))
        if name in _TAKES_BETA and betas:
            beta = float(betas.pop(0))
        made.append(lambda x, f=f, alpha=alpha, beta=beta: f(x, alpha, beta))
    per = len(defaults)
    return [made[i * per : (i + 1) * per] for i in range(directions)]


@dataclass(frozen=True, slots=True)
class _Layer:
    """Operands of one direction, in float64; ``clip`` bounds what goes into the activations."""

    w: np.ndarray
    r: np.ndarray
    w_bias: np.ndarray
    r_bias: np.ndarray
    peepholes: np.ndarray
    activations: list[Activation]
    clip: float | None
    node: Node

    def bounded(self, x: np.ndarray) -> np.ndarray:
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)


State = tuple[np.ndarray, ...]


def _rnn_step(layer: _Layer, x: np.ndarray, state: State) -> State:
    gates = x @ layer.w.T + state[0] @ layer.r.T + layer.w_bias + layer.r_bias
    return (layer.activations[0](layer.bounded(gates)),)


def _gru_step(layer: _Layer, x: np.ndarray, state: State) -> State:
    (h,) = state
    f, g = layer.activations
    wz, wr, wh = np.split(x @ layer.w.T + layer.w_bias, 3, axis=1)
    rz, rr, rh = np.split(layer.r, 3)
    bz, br, bh = np.split(layer.r_bias, 3)
    z = f(layer.bounded(wz + h @ rz.T + bz))
    r = f(layer.bounded(wr + h @ rr.T + br))
    if layer.node.attr("linear_before_reset", 0):
        candidate = g(layer.bounded(wh + r * (h @ rh.T + bh)))
    else:
        candidate = g(layer.bounded(wh + (r * h) @ rh.T + bh))
    return ((1 - z) * candidate + z * h,)


def _lstm_step(layer: _Layer, x: np.ndarray, state: State) -> State:
    h, c = state
    f, g, out = layer.activations
    gates = x @ layer.w.T + h @ layer.r.T + layer.w_bias + layer.r_bias
    i, o, forget, new = np.split(gates, 4, axis=1)
    pi, po, pf = np.split(layer.peepholes, 3)
    i = f(layer.bounded(i + pi * c))
    forget = 1 - i if layer.node.attr("input_forget", 0) else f(layer.bounded(forget + pf * c))
    c = forget * c + i * g(layer.bounded(new))
    o = f(layer.bounded(o + po * c))
    return o * out(c), c


# operator -> (step, number of gates, default activations)
_STEPS = {
    "RNN": (_rnn_step, 1, ["Tanh"]),
    "GRU": (_gru_step, 3, ["Sigmoid", "Tanh"]),
    "LSTM": (_lstm_step, 4, ["Sigmoid", "Tanh", "Tanh"]),
}


def _run(layer: _Layer, x: np.ndarray, lengths: np.ndarray, state: State, reverse: bool) -> tuple[np.ndarray, State]:
    """All steps of one direction: the hidden state at each time [T, N, H], and the last states.

    A sequence that ended keeps its last state and yields zeros; in reverse it is its own last element that comes first.
    """
    step = _STEPS[layer.node.op][0]
    time = len(x)
    y = np.zeros((time, *state[0].shape))
    for t in reversed(range(time)) if reverse else range(time):
        active = (t < lengths)[:, None]
        new = step(layer, x[t], state)
        state = tuple(np.where(active, a, b) for a, b in zip(new, state, strict=True))
        y[t] = np.where(active, state[0], 0)
    return y, state


def _recurrent(node: Node, inputs: Inputs) -> list[Any]:
    _, gates, defaults = _STEPS[node.op]
    x, w, r = (wide(v) for v in inputs[:3])
    dtype = inputs[0].dtype
    batch_first = bool(node.attr("layout", 0))
    if batch_first:
        x = x.swapaxes(0, 1)
    time, batch, _ = x.shape
    directions, _, hidden = r.shape
    bias, lengths = optional(inputs, 3), optional(inputs, 4)
    bias = np.zeros((directions, 2 * gates * hidden)) if bias is None else wide(bias)
    lengths = np.full(batch, time) if lengths is None else lengths
    peepholes = optional(inputs, 7)
    peepholes = np.zeros((directions, 3 * hidden)) if peepholes is None else wide(peepholes)
    states: list[np.ndarray] = []
    for index in (5, 6) if node.op == "LSTM" else (5,):
        initial = optional(inputs, index)
        initial = np.zeros((directions, batch, hidden)) if initial is None else wide(initial)
        states.append(initial.swapaxes(0, 1) if batch_first and optional(inputs, index) is not None else initial)
    activations = _activations(node, defaults, directions)
    direction = node.attr("direction", "forward")
    outputs, finals = [], []
    for d in range(directions):
        w_bias, r_bias = np.split(bias[d], 2)
        layer = _Layer(w[d], r[d], w_bias, r_bias, peepholes[d], activations[d], node.attr("clip"), node)
        y, final = _run(layer, x, lengths, tuple(s[d] for s in states), direction == "reverse" or d == 1)
        outputs.append(y)
        finals.append(final)
    y = np.stack(outputs, axis=1)
    last = [np.stack(parts) for parts in zip(*finals, strict=True)]
    if batch_first:
        y = y.transpose(2, 0, 1, 3)
        last = [v.swapaxes(0, 1) for v in last]
    return [v.astype(dtype) for v in (y, *last)]


OPS: dict[str, OpFunction] = {"GRU": _recurrent, "LSTM": _recurrent, "RNN": _recurrent}
