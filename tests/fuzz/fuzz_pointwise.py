"""Pointwise moves: activations in every spelling, arithmetic with constants and with other values.

A spelling comes with its near-misses: another constant, another axis, a factor that enlarges.
"""

from __future__ import annotations

import math

import numpy as np

from autofusion.ir.graph import Value
from tests.fuzz.fuzz_make import Make
from tests.fuzz.fuzz_moves import along, move, near, number

UNARY = (
    "Abs Acosh Asinh Atan Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Log Mish "
    "Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu"
).split()


def unary(m: Make, x: Value) -> Value:
    op = m.choose(*UNARY)
    attrs: dict[str, object] = {}
    if op in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu") and m.maybe(0.5):
        attrs["alpha"] = m.choose(0.2, 1.3)
    if op == "Gelu" and m.maybe(0.5):
        attrs["approximate"] = "tanh"
    return m.op(op, x, **attrs)


def activation(m: Make, x: Value) -> Value:
    return m.choose(
        simple_activation, clip, clip, swish, gelu, hard_swish, mish, prelu, prelu_pieces, unary, min_max, where
    )(m, x)


def simple_activation(m: Make, x: Value) -> Value:
    return m.op(m.choose("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "Elu", "Softplus"), x)


def clip(m: Make, x: Value) -> Value:
    if m.maybe(0.3):
        x = m.op("Relu", x)
    low, high = m.choose((0.0, 6.0), (-1.0, 1.0), (2.0, -1.0), (0.0, 1.0), (-0.5, 0.7))
    bounds = [m.const(b, m.dtype(x)) if m.maybe(0.8) else None for b in (low, high)]
    y = m.op("Clip", x, *bounds)
    if m.maybe(0.3):
        y = m.op("Relu", y)
    if m.maybe(0.2):
        y = m.op("Clip", y, m.const(-0.2, m.dtype(x)), m.const(m.choose(0.5, -1.0), m.dtype(x)))
    return y


def min_max(m: Make, x: Value) -> Value:
    low, high = number(m, x, m.choose(0.0, -1.0)), number(m, x, m.choose(6.0, 1.0, -2.0))
    if m.maybe(0.5):
        return m.op("Min", m.op("Max", *m.choose((x, low), (low, x))), high)
    return m.op("Max", m.op("Min", *m.choose((x, high), (high, x))), low)


def swish(m: Make, x: Value) -> Value:
    inner = x if m.maybe(0.6) else m.op("Mul", x, number(m, x, m.choose(1.702, 1.0)))
    gate = m.op(m.choose("Sigmoid", "Sigmoid", "HardSigmoid"), inner)
    if m.maybe(0.2):
        m.keep(gate)
    return m.op("Mul", *m.choose((x, gate), (gate, x)))


def hard_swish(m: Make, x: Value) -> Value:
    shifted = m.op("Add", x, number(m, x, near(m, 3.0)))
    clipped = m.op("Clip", shifted, m.const(0.0, m.dtype(x)), m.const(near(m, 6.0), m.dtype(x)))
    if m.maybe(0.3):
        clipped = m.op("Min", m.op("Relu", shifted), number(m, x, near(m, 6.0)))
    six = number(m, x, near(m, 6.0))
    sixth = number(m, x, near(m, 1 / 6))
    return m.choose(
        lambda: m.op("Div", m.op("Mul", x, clipped), six),
        lambda: m.op("Mul", m.op("Mul", clipped, x), sixth),
        lambda: m.op("Mul", x, m.op("Div", clipped, six)),
        lambda: m.op("Mul", x, m.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)),
        lambda: m.op("Div", clipped, six),
        lambda: m.op("Mul", m.op("Div", x, six), clipped),
    )()


def gelu(m: Make, x: Value) -> Value:
    half, one = number(m, x, near(m, 0.5)), number(m, x, near(m, 1.0))
    if m.maybe(0.5):
        root = m.op("Div", x, number(m, x, near(m, math.sqrt(2.0))))
        if m.maybe(0.3):
            root = m.op("Mul", x, number(m, x, near(m, math.sqrt(0.5))))
        bracket = m.op("Add", m.op("Erf", root), one)
    else:
        cube = m.choose(lambda: m.op("Pow", x, number(m, x, near(m, 3.0))), lambda: m.op("Mul", m.op("Mul", x, x), x))()
        inner = m.op("Add", x, m.op("Mul", cube, number(m, x, near(m, 0.044715))))
        bracket = m.op("Add", one, m.op("Tanh", m.op("Mul", inner, number(m, x, near(m, math.sqrt(2 / math.pi))))))
    if m.maybe(0.1):
        m.keep(bracket)
    return m.choose(
        lambda: m.op("Mul", m.op("Mul", x, half), bracket),
        lambda: m.op("Mul", m.op("Mul", x, bracket), half),
        lambda: m.op("Mul", x, m.op("Mul", bracket, half)),
    )()


def mish(m: Make, x: Value) -> Value:
    soft = m.choose(
        lambda: m.op("Softplus", x), lambda: m.op("Log", m.op("Add", m.op("Exp", x), number(m, x, near(m, 1.0))))
    )()
    return m.op("Mul", x, m.op("Tanh", soft))


def prelu(m: Make, x: Value) -> Value:
    shape = m.shape(x)
    slope = m.choose((), (1,), (shape[1], *(1,) * (len(shape) - 2)) if len(shape) > 1 else (), shape, shape[-1:])
    return m.op("PRelu", x, m.const(m.array(slope), m.dtype(x)))


def prelu_pieces(m: Make, x: Value) -> Value:
    negative = m.op("Relu", m.op("Neg", x))
    part = m.op("Mul", negative, m.const(along(m, m.shape(x)), m.dtype(x)))
    return m.op(m.choose("Add", "Sub"), m.op("Relu", x), part)


def where(m: Make, x: Value) -> Value:
    condition = m.op(m.choose("Greater", "LessOrEqual", "Equal"), x, number(m, x, m.choose(0.0, 0.3)))
    other = m.choose(lambda: number(m, x, -1e4), lambda: m.const(along(m, m.shape(x)), m.dtype(x)), lambda: x)()
    return m.op("Where", condition, *m.choose((x, other), (other, x)))


def arithmetic(m: Make, x: Value) -> Value:
    """One operator with a constant along some axis."""
    op = m.choose("Add", "Add", "Mul", "Mul", "Sub", "Div", "Max", "Min", "Pow")
    c = along(m, m.shape(x))
    if op == "Div":
        c = np.where(np.abs(c) < 0.2, np.float32(0.2), c)
    if op == "Pow":
        c = np.full(c.shape, m.choose(2.0, 1.0, 3.0))
    if m.maybe(0.1):
        c = np.full(c.shape, m.choose(0.0, 1.0, -0.0))
    other = m.const(c, m.dtype(x))
    return m.op(op, *((x, other) if (m.maybe(0.7) and op != "Pow") or op in ("Pow", "Div") else (other, x)))


@move("any", "image", "rows")
def with_constant(m: Make) -> None:
    m.keep(arithmetic(m, m.pick_float()))


@move("any", "image", "rows")
def act(m: Make) -> None:
    m.keep(activation(m, m.pick_float()))


@move("any")
def one_operand(m: Make) -> None:
    m.keep(unary(m, m.pick_float()))


@move("any", "any", "image", "rows")
def two_operands(m: Make) -> None:
    x = m.pick_float()
    op = m.choose("Add", "Add", "Mul", "Sub", "Max", "Min", "Div", "Mean", "Sum")
    y = m.pick(lambda v: v.dtype == x.dtype and len(m.shape(v)) <= 5, recent=0.2)
    m.keep(m.op(op, x, y) if m.maybe(0.5) else m.op(op, y, x))


@move("any")
def rewritten_away(m: Make) -> None:
    """What some rule drops or merges."""
    x = m.pick_float()
    one, zero, two = number(m, x, near(m, 1.0)), number(m, x, near(m, 0.0)), number(m, x, near(m, 2.0))
    y = m.choose(
        lambda: m.op("Mul", x, one),
        lambda: m.op("Div", x, one),
        lambda: m.op("Sub", x, zero),
        lambda: m.op("Add", x, zero),
        lambda: m.op("Pow", x, two),
        lambda: m.op("Relu", m.op("Relu", x)),
        lambda: m.op("Identity", x),
        lambda: m.op("Neg", m.op("Neg", x)),
        lambda: m.op("Dropout", x),
        lambda: m.op("Sum", x),
        lambda: m.op("Mul", x, zero),
    )()
    m.keep(y)
    if m.maybe(0.3):
        twin = m.op(y.producer.op, *y.producer.inputs, **y.producer.attrs)  # type: ignore[union-attr]
        m.keep(twin)


@move("any")
def dropout_with_mask(m: Make) -> None:
    m.keep(*m.ops("Dropout", m.pick_float(), outputs=2))
