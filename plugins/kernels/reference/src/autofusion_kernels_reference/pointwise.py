"""Elementwise operators.

Plain arithmetic is done in the operand's type, as IEEE 754 defines it. Functions (exp, erf, ...) of float32 and
narrower types are computed in float64 and rounded once, so that the result is the correctly rounded one but for rare
ties. Maxima, minima and clamps propagate NaN, as the operator set asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.erf import erf
from autofusion_kernels_reference.support import Inputs, OpFunction, is_float, is_integer, optional, wide


def _function(f: Callable[[np.ndarray], np.ndarray]) -> OpFunction:
    """A unary operator computed in float64."""

    def run(node: Node, inputs: Inputs) -> list[Any]:
        x = inputs[0]
        return [np.asarray(f(wide(x))).astype(x.dtype)]

    return run


def _direct(f: Callable[[np.ndarray], np.ndarray]) -> OpFunction:
    """A unary operator computed in the operand's type; sub-byte and 8-bit float types go through wider ones."""

    def run(node: Node, inputs: Inputs) -> list[Any]:
        x = inputs[0]
        if x.dtype.kind == "V":
            return [np.asarray(f(wide(x))).astype(x.dtype)]
        return [np.asarray(f(x), dtype=x.dtype)]

    return run


def _arithmetic(f: Callable[[Any, Any], Any]) -> OpFunction:
    """A binary operator computed in the operands' type."""

    def run(node: Node, inputs: Inputs) -> list[Any]:
        a, b = inputs
        if a.dtype.kind == "V":
            return [np.asarray(f(wide(a), wide(b))).astype(a.dtype)]
        return [np.asarray(f(a, b))]

    return run


def _logical(f: Callable[[Any, Any], Any]) -> OpFunction:
    """A binary operator with a boolean result."""

    def run(node: Node, inputs: Inputs) -> list[Any]:
        a, b = (wide(x) if x.dtype.kind == "V" else x for x in inputs)
        return [np.asarray(f(a, b)).astype(np.bool_)]

    return run


def _predicate(f: Callable[[Node, np.ndarray], np.ndarray]) -> OpFunction:
    def run(node: Node, inputs: Inputs) -> list[Any]:
        return [np.asarray(f(node, wide(inputs[0]))).astype(np.bool_)]

    return run


def _with_attributes(f: Callable[..., np.ndarray], **defaults: Any) -> OpFunction:
    """A unary function of the operand (in float64) and attributes."""

    def run(node: Node, inputs: Inputs) -> list[Any]:
        x = inputs[0]
        return [np.asarray(f(wide(x), *(node.attr(k, d) for k, d in defaults.items()))).astype(x.dtype)]

    return run


def _variadic(f: Callable[[Any, Any], Any], *, mean: bool = False) -> OpFunction:
    def run(node: Node, inputs: Inputs) -> list[Any]:
        total = wide(inputs[0])
        for x in inputs[1:]:
            total = f(total, wide(x))
        if mean:
            total = total / len(inputs)
        return [np.asarray(total).astype(inputs[0].dtype)]

    return run


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotient; integers are truncated toward zero, where NumPy's ``//`` rounds down."""
    if not is_integer(a.dtype):
        return np.divide(a, b)
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "u":
        return quotient
    inexact = (quotient * b != a) & (b != 0)
    return quotient + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)


def _mod(node: Node, inputs: Inputs) -> list[Any]:
    a, b = inputs
    f = np.fmod if node.attr("fmod", 0) else np.mod
    return [np.asarray(f(wide(a), wide(b))).astype(a.dtype)]


def _pow(node: Node, inputs: Inputs) -> list[Any]:
    base, exponent = inputs
    both_integer = is_integer(base.dtype) and is_integer(exponent.dtype)
    if both_integer and (exponent.dtype.kind == "u" or not np.any(exponent < 0)):
        return [np.asarray(np.power(base, exponent.astype(base.dtype)))]
    result = np.power(base.astype(np.float64), exponent.astype(np.float64))
    return [np.asarray(result).astype(base.dtype)]


def _clip(node: Node, inputs: Inputs) -> list[Any]:
    x, low, high = inputs[0], optional(inputs, 1), optional(inputs, 2)
    y = wide(x)
    if low is not None:
        y = np.maximum(y, wide(low))
    if high is not None:  # last, so that everything becomes `high` where low > high
        y = np.minimum(y, wide(high))
    return [np.asarray(y).astype(x.dtype)]


def _prelu(node: Node, inputs: Inputs) -> list[Any]:
    x, slope = inputs
    a = wide(x)
    return [np.where(a < 0, a * wide(slope), a).astype(x.dtype)]


def _is_inf(node: Node, x: np.ndarray) -> np.ndarray:
    negative, positive = node.attr("detect_negative", 1), node.attr("detect_positive", 1)
    return np.isinf(x) & (((x < 0) & bool(negative)) | ((x > 0) & bool(positive)))


def _gelu(x: np.ndarray, approximate: str) -> np.ndarray:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _bit_shift(node: Node, inputs: Inputs) -> list[Any]:
    f = np.left_shift if node.attr("direction") == "LEFT" else np.right_shift
    return [np.asarray(f(inputs[0], inputs[1]))]


def _shrink(x: np.ndarray, lambd: float, bias: float) -> np.ndarray:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, np.zeros_like(x)))


def _bitwise_unary(node: Node, inputs: Inputs) -> list[Any]:
    return [np.asarray(np.bitwise_not(inputs[0]))]


def _where(node: Node, inputs: Inputs) -> list[Any]:
    return [np.where(inputs[0], inputs[1], inputs[2])]


def _not(node: Node, inputs: Inputs) -> list[Any]:
    return [np.asarray(np.logical_not(inputs[0]))]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)); overflow of exp gives the right limit, 0."""
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + exp(x)) without overflow."""
    return np.logaddexp(x, 0)


def _reciprocal(x: np.ndarray) -> np.ndarray:
    return np.divide(np.ones((), x.dtype), x)


def _equal(a: Any, b: Any) -> Any:
    return a == b


def _rounding(f: Callable[[np.ndarray], np.ndarray]) -> OpFunction:
    """Rounding operators leave integers alone; NumPy would make floats of them."""
    return _direct(lambda x: f(x) if is_float(x.dtype) else x)


OPS: dict[str, OpFunction] = {
    "Abs": _direct(np.abs),
    "Acos": _function(np.arccos),
    "Acosh": _function(np.arccosh),
    "Add": _arithmetic(np.add),
    "And": _logical(np.logical_and),
    "Asin": _function(np.arcsin),
    "Asinh": _function(np.arcsinh),
    "Atan": _function(np.arctan),
    "Atanh": _function(np.arctanh),
    "BitShift": _bit_shift,
    "BitwiseAnd": _arithmetic(np.bitwise_and),
    "BitwiseNot": _bitwise_unary,
    "BitwiseOr": _arithmetic(np.bitwise_or),
    "BitwiseXor": _arithmetic(np.bitwise_xor),
    "Ceil": _rounding(np.ceil),
    "Celu": _with_attributes(lambda x, a: np.maximum(x, 0) + np.minimum(0, a * np.expm1(x / a)), alpha=1.0),
    "Clip": _clip,
    "Cos": _function(np.cos),
    "Cosh": _function(np.cosh),
    "Div": _arithmetic(divide),
    "Elu": _with_attributes(lambda x, a: np.where(x < 0, a * np.expm1(x), x), alpha=1.0),
    "Equal": _logical(_equal),
    "Erf": _function(erf),
    "Exp": _function(np.exp),
    "Floor": _rounding(np.floor),
    "Gelu": _with_attributes(_gelu, approximate="none"),
    "Greater": _logical(np.greater),
    "GreaterOrEqual": _logical(np.greater_equal),
    "HardSigmoid": _with_attributes(lambda x, a, b: np.maximum(0, np.minimum(1, a * x + b)), alpha=0.2, beta=0.5),
    "HardSwish": _function(lambda x: x * np.maximum(0, np.minimum(1, x / 6 + 0.5))),
    "IsInf": _predicate(_is_inf),
    "IsNaN": _predicate(lambda node, x: np.isnan(x)),
    "LeakyRelu": _with_attributes(lambda x, a: np.where(x < 0, a * x, x), alpha=0.01),
    "Less": _logical(np.less),
    "LessOrEqual": _logical(np.less_equal),
    "Log": _function(np.log),
    "Max": _variadic(np.maximum),
    "Mean": _variadic(np.add, mean=True),
    "Min": _variadic(np.minimum),
    "Mish": _function(lambda x: x * np.tanh(softplus(x))),
    "Mod": _mod,
    "Mul": _arithmetic(np.multiply),
    "Neg": _direct(np.negative),
    "Not": _not,
    "Or": _logical(np.logical_or),
    "PRelu": _prelu,
    "Pow": _pow,
    "Reciprocal": _direct(_reciprocal),
    "Relu": _direct(lambda x: np.maximum(x, np.zeros((), x.dtype))),
    "Round": _rounding(np.rint),
    "Selu": _with_attributes(
        lambda x, a, g: g * np.where(x > 0, x, a * np.expm1(x)),
        alpha=1.67326319217681884765625,
        gamma=1.05070102214813232421875,
    ),
    "Shrink": _with_attributes(_shrink, lambd=0.5, bias=0.0),
    "Sigmoid": _function(sigmoid),
    "Sign": _direct(np.sign),
    "Sin": _function(np.sin),
    "Sinh": _function(np.sinh),
    "Softplus": _function(softplus),
    "Softsign": _function(lambda x: x / (1 + np.abs(x))),
    "Sqrt": _direct(np.sqrt),
    "Sub": _arithmetic(np.subtract),
    "Sum": _variadic(np.add),
    "Tan": _function(np.tan),
    "Tanh": _function(np.tanh),
    "ThresholdedRelu": _with_attributes(lambda x, a: np.where(x > a, x, np.zeros_like(x)), alpha=1.0),
    "Where": _where,
    "Xor": _logical(np.logical_xor),
}
