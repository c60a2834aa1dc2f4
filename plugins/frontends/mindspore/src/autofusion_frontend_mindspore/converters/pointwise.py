"""Primitives of one operand that are one operator, and those that differ from one by a few more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autofusion.ir.dtypes import BOOL
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter

_SAME = {
    "ACos": "Acos",
    "AcosExt": "Acos",
    "Acosh": "Acosh",
    "AcoshExt": "Acosh",
    "Asin": "Asin",
    "AsinExt": "Asin",
    "Asinh": "Asinh",
    "AsinhExt": "Asinh",
    "Atan": "Atan",
    "AtanExt": "Atan",
    "Atanh": "Atanh",
    "Ceil": "Ceil",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "IsNan": "IsNaN",
    "IsInf": "IsInf",
    "LogicalNot": "Not",
    "Neg": "Neg",
    "Reciprocal": "Reciprocal",
    "Inv": "Reciprocal",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Sqrt": "Sqrt",
    "Tan": "Tan",
    "Tanh": "Tanh",
}

_KEEPS_INTEGERS = {"IsNaN", "IsInf", "Neg", "Not", "Sign", "Ceil", "Floor"}


def floating(call: Call, value: Value) -> Value:
    """``value`` as floats: MindSpore computes functions of integers in single precision."""
    return value if value.dtype is None or value.dtype.kind in "fVc" else call.cast(value, np.dtype(np.float32))


def _register(primitive: str, op: str) -> None:
    def convert(call: Call) -> Value:
        value = call.tensor(0)
        if op in ("Ceil", "Floor") and value.dtype is not None and value.dtype.kind in "iu":
            return value
        if op == "Not":
            value = call.cast(value, BOOL)
        elif op not in _KEEPS_INTEGERS or op in ("IsNaN", "IsInf"):
            value = floating(call, value)
        return call.emit(op, value)

    converter(primitive)(convert)


for _primitive, _op in _SAME.items():
    _register(_primitive, _op)


@converter("Identity", "TensorMove", "Contiguous", "Clone", "Detach")
def identity(call: Call) -> Value:
    """The operand itself."""
    return call.tensor(0)


@converter("Cast", "ToDtype", "ToDevice")
def cast(call: Call) -> Value:
    """Another element type; from float to integer it cuts the fraction off, as ONNX does."""
    value = call.tensor(0)
    to = call.result_dtype()
    if to is None:
        to = call.type_id(call.argument(1, "dst_type"))
    return call.cast(value, to)


@converter("Log")
def log(call: Call) -> Value:
    """log_base(scale * x + shift); only the defaults are exported by the framework's own layers."""
    base, scale, shift = (call.attrs.get(n, d) for n, d in (("base", -1.0), ("scale", 1.0), ("shift", 0.0)))
    value = floating(call, call.tensor(0))
    if scale != 1.0:
        value = call.emit("Mul", value, call.like(scale, value))
    if shift != 0.0:
        value = call.emit("Add", value, call.like(shift, value))
    result = call.emit("Log", value)
    return result if base == -1.0 else call.emit("Mul", result, call.like(1.0 / np.log(base), result))


def _scaled_log(base: float) -> Callable[[Call], Value]:
    def convert(call: Call) -> Value:
        result = call.emit("Log", floating(call, call.tensor(0)))
        return call.emit("Mul", result, call.like(1.0 / np.log(base), result))

    return convert


converter("Log2")(_scaled_log(2.0))
converter("Log10")(_scaled_log(10.0))


@converter("Log1p")
def log1p(call: Call) -> Value:
    """log(1 + x)."""
    value = floating(call, call.tensor(0))
    return call.emit("Log", call.emit("Add", value, call.like(1.0, value)))


@converter("Expm1")
def expm1(call: Call) -> Value:
    """exp(x) - 1."""
    value = call.emit("Exp", floating(call, call.tensor(0)))
    return call.emit("Sub", value, call.like(1.0, value))


@converter("Exp2")
def exp2(call: Call) -> Value:
    """2 to the power of x."""
    value = floating(call, call.tensor(0))
    return call.emit("Pow", call.like(2.0, value), value)


@converter("Rsqrt")
def rsqrt(call: Call) -> Value:
    """1 / sqrt(x)."""
    return call.emit("Reciprocal", call.emit("Sqrt", floating(call, call.tensor(0))))


@converter("Square")
def square(call: Call) -> Value:
    """x * x."""
    value = call.tensor(0)
    return call.emit("Mul", value, value)


@converter("Erfc")
def erfc(call: Call) -> Value:
    """1 - erf(x)."""
    value = call.emit("Erf", floating(call, call.tensor(0)))
    return call.emit("Sub", call.like(1.0, value), value)


@converter("Round", "Rint")
def round_(call: Call) -> Value:
    """To the nearest number, ties to the even one; optionally with some decimals."""
    value, decimals = call.tensor(0), call.argument(1, "decimals", 0) or 0
    if call.dtype(value).kind in "iu":
        if decimals < 0:
            call.fail("rounding integers to tens is not supported")
        return value
    if not decimals:
        return call.emit("Round", value)
    factor = call.like(10.0**decimals, value)
    return call.emit("Div", call.emit("Round", call.emit("Mul", value, factor)), factor)


@converter("Trunc")
def trunc(call: Call) -> Value:
    """The fraction cut off."""
    return truncated(call, call.tensor(0))


def truncated(call: Call, value: Value) -> Value:
    """``value`` rounded towards zero."""
    if call.dtype(value).kind in "iu":
        return value
    zero = call.like(0.0, value)
    return call.emit("Where", call.emit("Less", value, zero), call.emit("Ceil", value), call.emit("Floor", value))


@converter("Frac")
def frac(call: Call) -> Value:
    """What truncation cuts off."""
    value = call.tensor(0)
    return call.emit("Sub", value, truncated(call, value))


@converter("IsFinite")
def is_finite(call: Call) -> Value:
    """Neither NaN nor infinite."""
    value = floating(call, call.tensor(0))
    return call.emit("Not", call.emit("Or", call.emit("IsNaN", value), call.emit("IsInf", value)))


@converter("IsNegInf")
def is_negative_infinity(call: Call) -> Value:
    """Minus infinity."""
    return call.emit("IsInf", floating(call, call.tensor(0)), detect_positive=0)


@converter("NanToNum")
def nan_to_num(call: Call) -> Value:
    """NaN and infinities replaced; the defaults are zero and the largest numbers."""
    value = call.tensor(0)
    limits = np.finfo(call.dtype(value))
    for position, name, test, default in (
        (1, "nan", call.emit("IsNaN", value), 0.0),
        (2, "posinf", call.emit("IsInf", value, detect_negative=0), float(limits.max)),
        (3, "neginf", call.emit("IsInf", value, detect_positive=0), float(limits.min)),
    ):
        given = call.argument(position, name, None)
        value = call.emit("Where", test, call.like(default if given is None else given, value), value)
    return value
