"""Activation functions."""

from __future__ import annotations

from typing import Any

from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call, elements
from autofusion_frontend_mindspore.registry import converter

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@converter("ReLU")
def relu(call: Call) -> Value:
    """max(x, 0). MindSpore's own kernel gives 0 for NaN; the IR keeps it, as ONNX does."""
    return call.emit("Relu", call.tensor(0))


@converter("ReLU6")
def relu6(call: Call) -> Value:
    """Between 0 and 6."""
    value = call.tensor(0)
    return call.emit("Clip", value, call.like(0, value), call.like(6, value))


@converter("LeakyReLUExt")
def leaky_relu(call: Call) -> Value:
    """x, or slope * x below zero."""
    slope = float(call.argument(1, "negative_slope", 0.01))
    return call.emit("LeakyRelu", call.tensor(0), alpha=slope)


@converter("GeLU")
def gelu(call: Call) -> Value:
    """Always the approximation by tanh."""
    return call.emit("Gelu", call.tensor(0), approximate="tanh")


@converter("GeluExt")
def gelu_ext(call: Call) -> Value:
    """The second operand says whether the approximation by tanh is meant (1) or not (0)."""
    mode = call.argument(1, "approximate", 0)
    if mode not in (0, 1, "none", "tanh"):
        call.fail(f"unknown approximation {mode!r}")
    return call.emit("Gelu", call.tensor(0), approximate="tanh" if mode in (1, "tanh") else "none")


@converter("FastGeLU")
def fast_gelu(call: Call) -> Value:
    """x * sigmoid(1.702 * x)."""
    value = call.tensor(0)
    return call.emit("Mul", value, call.emit("Sigmoid", call.emit("Mul", value, call.like(1.702, value))))


@converter("HSwish")
def hard_swish(call: Call) -> Value:
    """x * clip(x / 6 + 1 / 2, 0, 1)."""
    return call.emit("HardSwish", call.tensor(0))


@converter("HSigmoid")
def hard_sigmoid(call: Call) -> Value:
    """clip(x / 6 + 1 / 2, 0, 1)."""
    return call.emit("HardSigmoid", call.tensor(0), alpha=1.0 / 6.0, beta=0.5)


@converter("SiLU")
def silu(call: Call) -> Value:
    """x * sigmoid(x)."""
    value = call.tensor(0)
    return call.emit("Mul", value, call.emit("Sigmoid", value))


@converter("Mish", "MishExt")
def mish(call: Call) -> Value:
    """x * tanh(softplus(x))."""
    return call.emit("Mish", call.tensor(0))


@converter("SeLU", "SeLUExt")
def selu(call: Call) -> Value:
    """The self-normalising exponential unit."""
    return call.emit("Selu", call.tensor(0), alpha=_SELU_ALPHA, gamma=_SELU_SCALE)


@converter("Elu", "EluExt")
def elu(call: Call) -> Value:
    """x, or alpha * (exp(x) - 1) below zero."""
    return call.emit("Elu", call.tensor(0), alpha=float(call.argument(1, "alpha", 1.0)))


@converter("CeLU")
def celu(call: Call) -> Value:
    """x, or alpha * (exp(x / alpha) - 1) below zero."""
    return call.emit("Celu", call.tensor(0), alpha=float(call.argument(1, "alpha", 1.0)))


@converter("Softsign")
def softsign(call: Call) -> Value:
    """x / (1 + |x|)."""
    return call.emit("Softsign", call.tensor(0))


@converter("Softplus")
def softplus(call: Call) -> Value:
    """log(1 + exp(x)), NaN of NaN; MindSpore's own kernel gives infinity for NaN."""
    return call.emit("Softplus", call.tensor(0))


@converter("SoftplusExt")
def softplus_ext(call: Call) -> Value:
    """softplus(beta * x) / beta, and x itself where beta * x is above a threshold."""
    value = call.tensor(0)
    beta, threshold = call.like(call.argument(1, "beta", 1), value), call.like(call.argument(2, "threshold", 20), value)
    inner = call.emit("Mul", value, beta)
    smooth = call.emit("Div", call.emit("Softplus", inner), beta)
    return call.emit("Where", call.emit("Greater", inner, threshold), value, smooth)


@converter("LogSigmoid")
def log_sigmoid(call: Call) -> Any:
    """-softplus(-x); a second result is the buffer of the gradient."""
    return elements(call, call.emit("Neg", call.emit("Softplus", call.emit("Neg", call.tensor(0)))))


@converter("HShrink")
def hard_shrink(call: Call) -> Value:
    """0 where |x| is at most lambda, x elsewhere."""
    return call.emit("Shrink", call.tensor(0), lambd=float(call.argument(1, "lambd", 0.5)), bias=0.0)


@converter("SoftShrink")
def soft_shrink(call: Call) -> Value:
    """x moved towards 0 by lambda, and 0 where it would pass it."""
    amount = float(call.argument(1, "lambd", 0.5))
    return call.emit("Shrink", call.tensor(0), lambd=amount, bias=amount)


@converter("Threshold")
def threshold(call: Call) -> Value:
    """x where it is above a threshold, a constant elsewhere."""
    value = call.tensor(0)
    above = call.emit("Greater", value, call.like(call.argument(1, "threshold"), value))
    return call.emit("Where", above, value, call.like(call.argument(2, "value"), value))


@converter("PReLU")
def prelu(call: Call) -> Value:
    """x, or weight * x below zero; the weight is one for each channel, or one for all."""
    value, weight = call.tensor(0), call.tensor(1)
    rank = call.rank(value)
    if rank >= 2:
        weight = call.emit("Reshape", weight, call.ints([-1] + [1] * (rank - 2)))
    return call.emit("PRelu", value, weight)


@converter("Softmax")
def softmax(call: Call) -> Value:
    """Over one axis, or over several at once."""
    value, axes = call.tensor(0), call.int_arguments(1, "axis", -1)
    if len(axes) == 1:
        return call.emit("Softmax", value, axis=axes[0])
    at = call.ints(axes)
    exp = call.emit("Exp", call.emit("Sub", value, call.emit("ReduceMax", value, at)))
    return call.emit("Div", exp, call.emit("ReduceSum", exp, at))


@converter("LogSoftmax", "LogSoftmaxExt")
def log_softmax(call: Call) -> Value:
    """Over one axis."""
    (axis,) = call.int_arguments(1, "axis", -1)
    return call.emit("LogSoftmax", call.tensor(0), axis=axis)


@converter("GLU")
def glu(call: Call) -> Value:
    """The first half times the sigmoid of the second."""
    (axis,) = call.int_arguments(1, "axis", -1)
    halves = call.node("Split", [call.tensor(0)], {"axis": axis, "num_outputs": 2}, outputs=2).outputs
    return call.emit("Mul", halves[0], call.emit("Sigmoid", halves[1]))


@converter("Swiglu")
def swiglu(call: Call) -> Value:
    """silu of the first half times the second."""
    (axis,) = call.int_arguments(1, "dim", -1)
    first, second = call.node("Split", [call.tensor(0)], {"axis": axis, "num_outputs": 2}, outputs=2).outputs
    return call.emit("Mul", call.emit("Mul", first, call.emit("Sigmoid", first)), second)


@converter("Logit")
def logit(call: Call) -> Value:
    """log(x / (1 - x)), of x kept away from 0 and 1 by eps."""
    value, eps = call.tensor(0), float(call.argument(1, "eps", -1.0) or -1.0)
    if eps >= 0:
        value = call.emit("Clip", value, call.like(eps, value), call.like(1.0 - eps, value))
    return call.emit("Log", call.emit("Div", value, call.emit("Sub", call.like(1.0, value), value)))
