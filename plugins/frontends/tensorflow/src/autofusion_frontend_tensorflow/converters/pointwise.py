"""Pointwise operators of one operand, and activations."""

from __future__ import annotations

import math

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.converters.fourier import widened
from autofusion_frontend_tensorflow.registry import converter

SIMPLE = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "Ceil": "Ceil",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Elu": "Elu",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Invert": "BitwiseNot",
    "IsInf": "IsInf",
    "IsNan": "IsNaN",
    "Log": "Log",
    "LogicalNot": "Not",
    "Neg": "Neg",
    "Relu": "Relu",
    "Selu": "Selu",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Softplus": "Softplus",
    "Softsign": "Softsign",
    "Sqrt": "Sqrt",
    "Tan": "Tan",
    "Tanh": "Tanh",
}
"""Operators that the IR has under this name, with the same meaning."""


@converter(*SIMPLE)
def simple(call: Call) -> Value:
    """The same operator."""
    return call.emit(SIMPLE[call.op], call.operand(0))


@converter("Rint", "Round")
def rounded(call: Call) -> Value:
    """Half to even. Integers are what they are."""
    x = call.operand(0)
    return x if call.dtype(x).kind in "iu" else call.emit("Round", x)


@converter("Relu6")
def clipped(call: Call) -> Value:
    """Between 0 and 6."""
    return relu6(call, call.operand(0))


def relu6(call: Call, x: Value) -> Value:
    """``x`` between 0 and 6."""
    return call.emit("Clip", x, call.like(0, x), call.like(6, x))


@converter("ReluN")
def clipped_at(call: Call) -> Value:
    """Between 0 and an attribute."""
    x = call.operand(0)
    return call.emit("Clip", x, call.like(0, x), call.like(float(call.attr("max_value", 6.0)), x))


@converter("ClipByValue")
def clip_by_value(call: Call) -> Value:
    """Bounds are scalars, or of a shape that broadcasts."""
    x, low, high = (call.operand(i) for i in range(3))
    if low.shape == () and high.shape == ():
        return call.emit("Clip", x, low, high)
    return call.emit("Max", call.emit("Min", x, high), low)


@converter("LeakyRelu")
def leaky_relu(call: Call) -> Value:
    """TensorFlow's default slope is 0.2, the IR's is 0.01."""
    return call.emit("LeakyRelu", call.operand(0), alpha=float(call.attr("alpha", 0.2)))


@converter("Rsqrt")
def reciprocal_root(call: Call) -> Value:
    """1 / sqrt(x)."""
    return call.emit("Reciprocal", call.emit("Sqrt", call.operand(0)))


@converter("Inv", "Reciprocal")
def reciprocal(call: Call) -> Value:
    """1 / x; the IR's operator is for floating-point numbers."""
    x = call.operand(0)
    if call.dtype(x).kind in "iu":
        return call.emit("Div", call.like(1, x), x)
    return call.emit("Reciprocal", x)


@converter("Square")
def square(call: Call) -> Value:
    """x * x."""
    return call.emit("Mul", call.operand(0), call.operand(0))


@converter("Erfc")
def complementary_error(call: Call) -> Value:
    """1 - erf(x)."""
    x = call.operand(0)
    return call.emit("Sub", call.like(1, x), call.emit("Erf", x))


@converter("Expm1")
def exp_less_one(call: Call) -> Value:
    """exp(x) - 1, which near 0 is 2 * sinh(x / 2) * exp(x / 2) without cancellation."""
    x = call.operand(0)
    half = call.emit("Mul", x, call.like(0.5, x))
    product = call.emit("Mul", call.emit("Sinh", half), call.emit("Exp", half))
    near = call.emit("Less", call.emit("Abs", x), call.like(1, x))
    small = call.emit("Mul", product, call.like(2, x))
    return call.emit("Where", near, small, call.emit("Sub", call.emit("Exp", x), call.like(1, x)))


@converter("Log1p")
def log_of_one_more(call: Call) -> Value:
    """log(1 + x), which near 0 is 2 * atanh(x / (2 + x)) without cancellation."""
    x = call.operand(0)
    ratio = call.emit("Div", x, call.emit("Add", x, call.like(2, x)))
    small = call.emit("Mul", call.emit("Atanh", ratio), call.like(2, x))
    near = call.emit("Less", call.emit("Abs", x), call.like(0.5, x))
    return call.emit("Where", near, small, call.emit("Log", call.emit("Add", x, call.like(1, x))))


@converter("IsFinite")
def is_finite(call: Call) -> Value:
    """Neither infinite nor NaN."""
    x = call.operand(0)
    return call.emit("Not", call.emit("Or", call.emit("IsInf", x), call.emit("IsNaN", x)))


@converter("Cast", "Bitcast")
def cast(call: Call) -> Value:
    """Floating point to integer truncates in both; to bool asks for not zero in both."""
    name = "DstT" if call.op == "Cast" else "type"
    to = call.dtype_attr(name, np.float32)
    if call.op == "Bitcast":
        if call.dtype(call.operand(0)) != to:
            call.fail(f"reading the bits of {call.operand(0).dtype} as {to} is not supported")
        return call.operand(0)
    return widened(call, call.operand(0), to) if to.kind == "c" else call.cast(call.operand(0), to)


@converter("ZerosLike", "OnesLike")
def filled_like(call: Call) -> Value:
    """Zeros or ones in the shape of the operand."""
    x = call.operand(0)
    fill = np.full(1, 0 if call.op == "ZerosLike" else 1, call.dtype(x))
    return call.emit("ConstantOfShape", call.shape(x), value=fill)


@converter("Gelu")
def gelu(call: Call) -> Value:
    """Exact, or by tanh."""
    return call.emit("Gelu", call.operand(0), approximate="tanh" if call.attr("approximate", True) else "none")


@converter("HardSwish")
def hard_swish(call: Call) -> Value:
    """x * relu6(x + 3) / 6."""
    return call.emit("HardSwish", call.operand(0))


@converter("SoftplusGrad", "Digamma")
def without_counterpart(call: Call) -> Value:
    """The IR has nothing to say these by."""
    call.fail("the IR has no operator for it")


@converter("Log2", "Log10")
def log_of_base(call: Call) -> Value:
    """Logarithms of other bases."""
    x = call.operand(0)
    return call.emit("Mul", call.emit("Log", x), call.like(1 / math.log(2 if call.op == "Log2" else 10), x))
