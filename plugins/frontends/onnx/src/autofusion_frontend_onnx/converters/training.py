"""Training: optimiser steps of ``ai.onnx.preview.training`` said in ordinary arithmetic, and a loss as its two parts.

Operands are the learning rate R, the update count T, then the tensors X_1..X_n, their gradients, and n of each further
state; results are the new X and the new states in the same order. The formulas are those of the operators' definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

DOMAIN = "ai.onnx.preview.training"

Step = Callable[..., Sequence[Value]]
"""(tensor, gradient, states...) -> the new tensor and the new states."""


def _each(call: Call, states: int, step: Step) -> list[Value]:
    """Apply ``step`` to every tensor with its gradient and ``states`` states; results grouped as the operator has
    them.
    """
    tensors = call.inputs[2:]
    kinds = 2 + states
    if not tensors or len(tensors) % kinds or any(v is None for v in tensors):
        call.fail(f"expected {kinds} operands for each tensor after R and T, found {len(tensors)}")
    count = len(tensors) // kinds
    made = [step(*tensors[i::count]) for i in range(count)]
    return [results[kind] for kind in range(1 + states) for results in made]


def _regularised(call: Call, x: Value, gradient: Value) -> Value:
    factor = call.like(float(call.attr("norm_coefficient", 0.0)), x)
    return call.emit("Add", call.emit("Mul", factor, x), gradient)


def _as_rate(call: Call, count: Value, rate: Value) -> Value:
    """The update count in the element type of the learning rate."""
    return call.emit("CastLike", count, rate)


@converter("Adagrad", domain=DOMAIN)
def adagrad(call: Call) -> list[Value]:
    """X - r G / (sqrt(H + G^2) + epsilon), with r = R / (1 + T decay)."""
    rate, count = call.operand(0), call.operand(1)
    decay = call.emit("Mul", _as_rate(call, count, rate), call.like(float(call.attr("decay_factor", 0.0)), rate))
    r = call.emit("Div", rate, call.emit("Add", decay, call.like(1.0, rate)))

    def step(x: Value, gradient: Value, squares: Value) -> Sequence[Value]:
        g = _regularised(call, x, gradient)
        new = call.emit("Add", squares, call.emit("Mul", g, g))
        size = call.emit("Add", call.emit("Sqrt", new), call.like(float(call.attr("epsilon", 1e-6)), x))
        return call.emit("Sub", x, call.emit("Div", call.emit("Mul", r, g), size)), new

    return _each(call, 1, step)


@converter("Momentum", domain=DOMAIN)
def momentum(call: Call) -> list[Value]:
    """V' = alpha V + beta G (beta is 1 at T = 0); X - R V', or X - R (G + alpha V') for Nesterov's form."""
    rate, count = call.operand(0), call.operand(1)
    mode = call.attr("mode", "standard")
    if mode not in ("standard", "nesterov"):
        call.fail(f"unknown mode '{mode}'; expected standard or nesterov")
    started = call.emit("Greater", count, call.like(0, count))
    alpha, beta = float(call.attr("alpha", 0.0)), float(call.attr("beta", 1.0))

    def step(x: Value, gradient: Value, velocity: Value) -> Sequence[Value]:
        g = _regularised(call, x, gradient)
        adjusted = call.emit("Where", started, call.like(beta, x), call.like(1.0, x))
        kept = call.emit("Mul", call.like(alpha, x), velocity)
        new = call.emit("Add", kept, call.emit("Mul", adjusted, g))
        move = new if mode == "standard" else call.emit("Add", g, call.emit("Mul", call.like(alpha, x), new))
        return call.emit("Sub", x, call.emit("Mul", rate, move)), new

    return _each(call, 1, step)


@converter("Adam", domain=DOMAIN)
def adam(call: Call) -> list[Value]:
    """X - r V' / (sqrt(H') + epsilon), with r = R sqrt(1 - beta^T) / (1 - alpha^T) once T > 0."""
    rate, count = call.operand(0), call.operand(1)
    alpha, beta = float(call.attr("alpha", 0.9)), float(call.attr("beta", 0.999))
    steps = _as_rate(call, count, rate)
    one = call.like(1.0, rate)

    def left(factor: float) -> Value:
        return call.emit("Sub", one, call.emit("Pow", call.like(factor, rate), steps))

    corrected = call.emit("Div", call.emit("Mul", rate, call.emit("Sqrt", left(beta))), left(alpha))
    r = call.emit("Where", call.emit("Greater", count, call.like(0, count)), corrected, rate)

    def average(old: Value, new: Value, factor: float) -> Value:
        kept = call.emit("Mul", call.like(factor, old), old)
        return call.emit("Add", kept, call.emit("Mul", call.like(1.0 - factor, old), new))

    def step(x: Value, gradient: Value, velocity: Value, squares: Value) -> Sequence[Value]:
        g = _regularised(call, x, gradient)
        v, h = average(velocity, g, alpha), average(squares, call.emit("Mul", g, g), beta)
        size = call.emit("Add", call.emit("Sqrt", h), call.like(float(call.attr("epsilon", 1e-6)), x))
        moved = call.emit("Sub", x, call.emit("Div", call.emit("Mul", r, v), size))
        return call.emit("Mul", call.like(1.0 - float(call.attr("norm_coefficient_post", 0.0)), x), moved), v, h

    return _each(call, 2, step)


@converter("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(call: Call) -> list[Value]:
    """The logarithms of probabilities, then the loss of the labels under them."""
    log_probability = call.emit("LogSoftmax", call.operand(0), axis=1)
    loss = call.emit("NegativeLogLikelihoodLoss", log_probability, *call.inputs[1:], **call.attrs)
    return [loss, log_probability]
