"""Every pointwise operator as instructions: the one table that regions, epilogues and prologues are generated from.

An emitter gets the function under construction, the graph node, and one vector (or scalar) for each operand, None where
the operand is absent; it returns the result. All operands of a call have the same number of lanes. ``pointwise_nodes``
tells which nodes can be emitted, and emits them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.operators import attribute
from autofusion_kernels_cpu.codegen import elements, vmath
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.values import F32, I1, I8, I32, Operandish, Value

Emitter = Callable[[Function, Node, Sequence[Value | None]], Value]


@dataclass(frozen=True, slots=True)
class PointwiseOp:
    """How an operator is emitted, and for which element types of its first operand."""

    emit: Emitter
    single: bool = True
    """float32, and the half-precision types that are computed in it."""
    double: bool = False
    integers: bool = False
    booleans: bool = False


# --- helpers ----------------------------------------------------------------------------------------------------------
def _dtype(node: Node, index: int = 0) -> np.dtype:
    value = node.inputs[index]
    assert value is not None and value.dtype is not None
    return value.dtype


def _unsigned(node: Node, index: int = 0) -> bool:
    return _dtype(node, index).kind == "u"


def _compare(f: Function, kind: str, a: Value, b: Value, unsigned: bool) -> Value:
    if not unsigned or kind in ("eq", "ne"):
        return f.compare(kind, a, b)
    return f.emit(f"icmp u{kind} {a}, {b.text}", a.type.with_element(I1))


def _larger(f: Function, node: Node, a: Value, b: Value, kind: str) -> Value:
    """Maximum (``gt``) or minimum (``lt``); a NaN in either operand wins."""
    if a.type.is_float:
        return f.max(a, b) if kind == "gt" else f.min(a, b)
    return f.select(_compare(f, kind, a, b, _unsigned(node)), a, b)


def _unary(function: Callable[[Function, Value], Value]) -> Emitter:
    return lambda f, node, x: function(f, x[0])  # type: ignore[arg-type]


def _binary(function: Callable[[Function, Value, Value], Value]) -> Emitter:
    return lambda f, node, x: function(f, x[0], x[1])  # type: ignore[arg-type]


def _fold(function: Callable[[Function, Node, Value, Value], Value]) -> Emitter:
    def emit(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
        result = x[0]
        assert result is not None
        for other in x[1:]:
            assert other is not None
            result = function(f, node, result, other)
        return result

    return emit


def _attributes(function: Callable[..., Value], *names: str) -> Emitter:
    """An operator of one operand whose attributes are the further arguments, as numbers."""
    return lambda f, node, x: function(f, x[0], *(float(attribute(node, n)) for n in names))


def _comparison(kind: str) -> Emitter:
    def emit(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
        a, b = x
        assert a is not None and b is not None
        return _compare(f, kind, a, b, _unsigned(node))

    return emit


# --- operators that are more than one call ----------------------------------------------------------------------------
def _abs(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    assert x[0] is not None
    return x[0] if _unsigned(node) else f.abs(x[0])


def _sign(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    a = x[0]
    assert a is not None
    one = f.const(1, a.type)
    if _unsigned(node):
        return f.select(f.ne(a, 0), one, 0)
    return f.select(a > 0, one, f.select(a < 0, -1, a))


def _guarded_divisor(f: Function, b: Value, unsigned: bool) -> Value:
    """Division traps on 0, and on -1 for the smallest number: 1 in their place."""
    bad = f.eq(b, 0)
    if not unsigned:
        bad = bad | f.eq(b, -1)
    return f.select(bad, 1, b)


def _div(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    a, b = x
    assert a is not None and b is not None
    if a.type.is_float:
        return a / b
    unsigned = _unsigned(node)
    divisor = _guarded_divisor(f, b, unsigned)
    quotient = f.udiv(a, divisor) if unsigned else a / divisor
    if not unsigned:
        quotient = f.select(f.eq(b, -1), f.const(0, a.type) - a, quotient)
    return f.select(f.eq(b, 0), 0, quotient)


def _mod(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    a, b = x
    assert a is not None and b is not None
    if a.type.is_float:
        return vmath.fmod(f, a, b)
    unsigned = _unsigned(node)
    divisor = _guarded_divisor(f, b, unsigned)
    rest = f.urem(a, divisor) if unsigned else f.rem(a, divisor)
    if not unsigned and not attribute(node, "fmod"):
        # The result has the divisor's sign.
        wrong = f.ne(rest, 0) & ((f.xor(rest, b)) < 0)
        rest = f.select(wrong, rest + b, rest)
    return rest


def _pow(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    a, b = x
    assert a is not None and b is not None
    exact = {1.0: lambda: a, 2.0: lambda: a * a, 3.0: lambda: a * a * a, -1.0: lambda: 1.0 / a}
    if b.constant is not None and float(b.constant) in exact:
        return exact[float(b.constant)]()
    if b.constant is not None and float(b.constant) == 0.5:
        # The square root of minus infinity is NaN, its power 1/2 is infinity; adding 0 makes -0 positive.
        return f.select(f.eq(a, -vmath.INFINITY), vmath.INFINITY, f.sqrt(a + 0.0))
    if b.type.element != F32:
        b = f.from_unsigned(b, F32) if _unsigned(node, 1) else f.convert(b, F32)
    return vmath.pow(f, a, b)


def _clip(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    result = x[0]
    assert result is not None
    for index, kind in ((1, "gt"), (2, "lt")):
        bound, value = x[index] if index < len(x) else None, node.operand(index)
        if bound is None:
            continue
        if not result.type.is_float:
            result = _larger(f, node, bound, result, kind)
        elif value is not None and value.const is not None and not np.isnan(value.const).any():
            # The bound goes first, so that a NaN in x is kept in one instruction.
            result = f.max_keep(bound, result) if kind == "gt" else f.min_keep(bound, result)
        else:  # a NaN in either is kept
            result = f.max(bound, result) if kind == "gt" else f.min(bound, result)
    return result


def _cast(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    a = x[0]
    assert a is not None
    source, target = _dtype(node), np.dtype(attribute(node, "to"))
    element = elements.register_type(target)
    if target.kind == "b":
        return a if source.kind == "b" else f.ne(a, 0)
    if source.kind == "u":
        if element.is_float:
            return f.from_unsigned(a, element)
        return f.extend_unsigned(a, element) if element.bits > a.type.bits else f.convert(a, element)
    if target.kind == "u" and a.type.is_float:
        return f.to_unsigned(a, element)
    return f.convert(a, element)


def _leaky(f: Function, x: Value, slope: Operandish) -> Value:
    return f.select(x < 0.0, x * slope, x)


def _selu(f: Function, x: Value, alpha: float, gamma: float) -> Value:
    return vmath.elu(f, x, alpha) * gamma


def _shrink(f: Function, x: Value, bias: float, lambd: float) -> Value:
    return f.select(x < -lambd, x + bias, f.select(x > lambd, x - bias, 0.0))


def _swish(f: Function, x: Value, alpha: float) -> Value:
    return vmath.silu(f, x) if alpha == 1 else vmath.silu_of(f, x, x * alpha)


def _gelu(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    assert x[0] is not None
    return (vmath.gelu_tanh if attribute(node, "approximate") == "tanh" else vmath.gelu)(f, x[0])


def _mean(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    total = _fold(lambda f, node, a, b: a + b)(f, node, x)
    return total / float(len(x)) if len(x) > 1 else total


def _is_inf(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    a = x[0]
    assert a is not None
    positive, negative = f.eq(a, vmath.INFINITY), f.eq(a, -vmath.INFINITY)
    if not attribute(node, "detect_negative"):
        return positive & bool(attribute(node, "detect_positive"))
    return positive | negative if attribute(node, "detect_positive") else negative


def _bit_shift(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    a, b = x
    assert a is not None and b is not None
    bits, within = a.type.bits, f.and_(b, a.type.bits - 1)
    past: Value | int = 0
    if attribute(node, "direction") == "LEFT":
        shifted = f.shl(a, within)
    elif _unsigned(node):
        shifted = f.lshr(a, within)
    else:
        # The sign fills up from the left, all of the number once the shift is as wide as it.
        shifted, past = f.ashr(a, within), f.ashr(a, bits - 1)
    return f.select(_compare(f, "lt", b, f.const(bits, b.type), True), shifted, past)


def _batch_normalization(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    """The parameters come as vectors of the operand's lanes: whoever emits aligns them with the channel."""
    a, scale, bias, mean, variance = x
    assert a is not None and scale is not None and bias is not None and mean is not None and variance is not None
    slope = scale / f.sqrt(variance + float(attribute(node, "epsilon")))
    return f.fma(a - mean, slope, bias)


def _as_float(f: Function, node: Node, index: int, x: Value) -> Value:
    return x if x.type.element == F32 else f.from_unsigned(x, F32) if _unsigned(node, index) else f.convert(x, F32)


def _dequantize(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    a, scale, zero = (*x, None)[:3]
    assert a is not None and scale is not None
    y = _as_float(f, node, 0, a)
    if zero is not None:
        y = y - _as_float(f, node, 2, zero)
    return y * scale


_SCALES = (2.0**-100, 2.0**100)
"""Scales whose reciprocals are as exact as they are; the others are divided by."""


def _quantize(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    """Round half to even, add the zero point, saturate; NaN becomes 0."""
    a, scale, zero = (*x, None)[:3]
    assert a is not None and scale is not None
    real, limits = _as_float(f, node, 0, a), np.iinfo(node.output.tensor.dtype)
    operand = node.inputs[1]
    assert operand is not None
    if operand.tensor.numel != 1 or not real.type.lanes or limits.bits > 16:
        return _quantize_by_division(f, node, real, scale, zero)
    bits = f.extract(f.bitcast(scale, I32), 0)
    first = f.extract(scale, 0)
    exact = (first > _SCALES[0]) & (first < _SCALES[1]) & f.ne(bits & 0x7FFFFF, 0x7FFFFF)
    (result,) = f.branch(
        exact,
        lambda: [_quantize_by_reciprocal(f, node, real, scale, zero)],
        lambda: [_quantize_by_division(f, node, real, scale, zero)],
    )
    return result


def _quantize_by_division(f: Function, node: Node, real: Value, scale: Value, zero: Value | None) -> Value:
    y = f.rint(real / scale)
    if zero is not None:
        y = y + _as_float(f, node, 2, zero)
    limits = np.iinfo(node.output.tensor.dtype)
    y = f.min(f.max(y, float(limits.min)), float(limits.max))
    return f.convert(f.convert(y, I32), elements.register_type(node.output.tensor.dtype))


def _quantize_by_reciprocal(f: Function, node: Node, real: Value, scale: Value, zero: Value | None) -> Value:
    """The same without a division for each element.

    With r = 1 / s rounded, q = a * r, one step q + (a - q * s) * r gives the quotient rounded correctly, but for an s
    whose mantissa is all ones (P. Markstein, IBM Journal of Research and Development 34, 1990). Adding 1.5 * 2**23
    rounds to an integer in the low bits.
    """
    dtype = node.output.tensor.dtype
    limits, magic = np.iinfo(dtype), 1.5 * 2.0**23
    reciprocal, most = 1.0 / scale, scale * 2.0**17
    a = f.min_keep(f.max_keep(real, f.as_value(-most, real.type)), most)
    q = a * reciprocal
    q = f.fma(f.fma(-q, scale, a), reciprocal, q)
    y = f.bitcast(q + magic, I32) - int(np.float32(magic).view(np.int32))
    if zero is not None:
        y = y + (f.extend_unsigned(zero, I32) if _unsigned(node, 2) else f.convert(zero, I32))
    y = f.min(f.max(y, int(limits.min)), int(limits.max))
    return f.convert(f.select(f.is_nan(real), 0, y), elements.register_type(dtype))


def _where(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    assert x[0] is not None and x[1] is not None and x[2] is not None
    return f.select(x[0], x[1], x[2])


def _look_up(f: Function, node: Node, x: Sequence[Value | None]) -> Value:
    """Elements of a table, whose address comes in place of its data, at indices of all bytes, signed or not."""
    table, index = x
    assert table is not None and index is not None
    lanes, whole = index.type.lanes, 64
    if not lanes or "+avx512vbmi" not in f.isa.features.split(","):
        return f.gather(table, index & 255, elements.memory_type(node.output.tensor.dtype))
    parts = [f.load(table, start, I8.of(whole)) for start in range(0, 256, whole)]
    at = f.shuffle(f.convert(index, I8), None, [*range(lanes), *[-1] * (whole - lanes)])
    low, high = (_of_two(f, parts[i], at, parts[i + 1]) for i in (0, 2))
    return f.shuffle(f.select(at < 0, high, low), None, range(lanes))


def _of_two(f: Function, a: Value, at: Value, b: Value) -> Value:
    """Bytes of two vectors, chosen by the low seven bits of ``at``."""
    f.declare(f"{a.type} @llvm.x86.avx512.vpermi2var.qi.512({a.type}, {a.type}, {a.type})")
    return f.emit(f"call {a.type} @llvm.x86.avx512.vpermi2var.qi.512({a!r}, {at!r}, {b!r})", a.type)


def _not(f: Function, x: Value) -> Value:
    return ~x


_ARITHMETIC = {"double": True, "integers": True}
OPS: Mapping[str, PointwiseOp] = {
    "Abs": PointwiseOp(_abs, **_ARITHMETIC),
    "Acos": PointwiseOp(_unary(vmath.acos)),
    "Acosh": PointwiseOp(_unary(vmath.acosh)),
    "Add": PointwiseOp(_fold(lambda f, node, a, b: a + b), **_ARITHMETIC),
    "And": PointwiseOp(_binary(lambda f, a, b: a & b), single=False, booleans=True),
    "Asin": PointwiseOp(_unary(vmath.asin)),
    "Asinh": PointwiseOp(_unary(vmath.asinh)),
    "Atan": PointwiseOp(_unary(vmath.atan)),
    "Atanh": PointwiseOp(_unary(vmath.atanh)),
    "BatchNormalization": PointwiseOp(_batch_normalization, double=True),
    "BitShift": PointwiseOp(_bit_shift, single=False, integers=True),
    "BitwiseAnd": PointwiseOp(_binary(lambda f, a, b: a & b), single=False, integers=True),
    "BitwiseNot": PointwiseOp(_unary(_not), single=False, integers=True),
    "BitwiseOr": PointwiseOp(_binary(lambda f, a, b: a | b), single=False, integers=True),
    "BitwiseXor": PointwiseOp(_binary(lambda f, a, b: a ^ b), single=False, integers=True),
    "Cast": PointwiseOp(_cast, double=True, integers=True, booleans=True),
    "Ceil": PointwiseOp(_unary(lambda f, x: f.ceil(x)), double=True),
    "Celu": PointwiseOp(_attributes(vmath.celu, "alpha")),
    "Clip": PointwiseOp(_clip, **_ARITHMETIC),
    "Cos": PointwiseOp(_unary(vmath.cos)),
    "Cosh": PointwiseOp(_unary(vmath.cosh)),
    "DequantizeLinear": PointwiseOp(_dequantize, single=False, integers=True),
    "Div": PointwiseOp(_div, **_ARITHMETIC),
    "Elu": PointwiseOp(_attributes(vmath.elu, "alpha")),
    "Equal": PointwiseOp(_comparison("eq"), double=True, integers=True, booleans=True),
    "Erf": PointwiseOp(_unary(vmath.erf)),
    "Exp": PointwiseOp(_unary(vmath.exp)),
    "Floor": PointwiseOp(_unary(lambda f, x: f.floor(x)), double=True),
    "Gelu": PointwiseOp(_gelu),
    "Gather": PointwiseOp(_look_up, single=False, integers=True),
    "Greater": PointwiseOp(_comparison("gt"), **_ARITHMETIC),
    "GreaterOrEqual": PointwiseOp(_comparison("ge"), **_ARITHMETIC),
    "HardSigmoid": PointwiseOp(_attributes(vmath.hard_sigmoid, "alpha", "beta"), double=True),
    "HardSwish": PointwiseOp(_unary(vmath.hardswish), double=True),
    "Identity": PointwiseOp(lambda f, node, x: x[0], double=True, integers=True, booleans=True),  # type: ignore[arg-type, return-value]
    "IsInf": PointwiseOp(_is_inf, double=True),
    "IsNaN": PointwiseOp(_unary(lambda f, x: f.is_nan(x)), double=True),
    "LeakyRelu": PointwiseOp(_attributes(_leaky, "alpha"), double=True),
    "Less": PointwiseOp(_comparison("lt"), **_ARITHMETIC),
    "LessOrEqual": PointwiseOp(_comparison("le"), **_ARITHMETIC),
    "Log": PointwiseOp(_unary(vmath.log)),
    "Max": PointwiseOp(_fold(lambda f, node, a, b: _larger(f, node, a, b, "gt")), **_ARITHMETIC),
    "Mean": PointwiseOp(_mean, double=True),
    "Min": PointwiseOp(_fold(lambda f, node, a, b: _larger(f, node, a, b, "lt")), **_ARITHMETIC),
    "Mish": PointwiseOp(_unary(vmath.mish)),
    "Mod": PointwiseOp(_mod, integers=True),
    "Mul": PointwiseOp(_fold(lambda f, node, a, b: a * b), **_ARITHMETIC),
    "Neg": PointwiseOp(_unary(lambda f, x: -x), **_ARITHMETIC),
    "Not": PointwiseOp(_unary(_not), single=False, booleans=True),
    "Or": PointwiseOp(_binary(lambda f, a, b: a | b), single=False, booleans=True),
    "PRelu": PointwiseOp(_binary(_leaky), double=True),
    "Pow": PointwiseOp(_pow),
    "QuantizeLinear": PointwiseOp(_quantize),
    "Reciprocal": PointwiseOp(_unary(lambda f, x: 1.0 / x), double=True),
    "Relu": PointwiseOp(_unary(lambda f, x: f.max(x, 0)), **_ARITHMETIC),
    "Round": PointwiseOp(_unary(lambda f, x: f.rint(x)), double=True),
    "Selu": PointwiseOp(_attributes(_selu, "alpha", "gamma")),
    "Shrink": PointwiseOp(_attributes(_shrink, "bias", "lambd"), double=True),
    "Sigmoid": PointwiseOp(_unary(vmath.sigmoid)),
    "Sign": PointwiseOp(_sign, **_ARITHMETIC),
    "Sin": PointwiseOp(_unary(vmath.sin)),
    "Sinh": PointwiseOp(_unary(vmath.sinh)),
    "Softplus": PointwiseOp(_unary(vmath.softplus)),
    "Softsign": PointwiseOp(_unary(lambda f, x: x / (f.abs(x) + 1.0)), double=True),
    "Sqrt": PointwiseOp(_unary(lambda f, x: f.sqrt(x)), double=True),
    "Sub": PointwiseOp(_fold(lambda f, node, a, b: a - b), **_ARITHMETIC),
    "Sum": PointwiseOp(_fold(lambda f, node, a, b: a + b), double=True),
    "Swish": PointwiseOp(_attributes(_swish, "alpha")),
    "Tan": PointwiseOp(_unary(vmath.tan)),
    "Tanh": PointwiseOp(_unary(vmath.tanh)),
    "ThresholdedRelu": PointwiseOp(_attributes(lambda f, x, alpha: f.select(x > alpha, x, 0.0), "alpha"), double=True),
    "Where": PointwiseOp(_where, double=True, integers=True, booleans=True),
    "Xor": PointwiseOp(_binary(lambda f, a, b: a ^ b), single=False, booleans=True),
}
