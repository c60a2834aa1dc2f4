"""Primitives of two operands. MindSpore casts operands of different element types to a common one; the IR states it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion.ir.types import TensorType
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.converters.pointwise import truncated
from autofusion_frontend_mindspore.registry import converter

_F32 = np.dtype(np.float32)


def common_dtype(call: Call, values: tuple[object, ...]) -> np.dtype:
    """The element type in which MindSpore combines the operands: a Python number adapts to a tensor of its kind."""
    tensors = [v.dtype for v in values if isinstance(v, Value) and v.dtype is not None]
    numbers = [v for v in values if not isinstance(v, Value)]
    if not tensors:
        return _F32 if any(isinstance(v, float) for v in numbers) else np.dtype(np.int64)
    dtype = tensors[0]
    for other in tensors[1:]:
        dtype = promoted(dtype, other)
    if any(isinstance(v, float) for v in numbers) and dtype.kind in "iub":
        return _F32
    if any(isinstance(v, int) and not isinstance(v, bool) for v in numbers) and dtype.kind == "b":
        return np.dtype(np.int64)
    return dtype


def promoted(a: np.dtype, b: np.dtype) -> np.dtype:
    """The common element type of two tensors: of a float and an integer the float's, whatever their sizes."""
    floats = [d for d in (a, b) if d.kind not in "iub"]
    if len(floats) == 1:
        return floats[0]
    if a == b:
        return a
    if "bfloat16" in (a.name, b.name):
        return _F32
    return np.promote_types(a, b)


def operands(call: Call, dtype: np.dtype | None = None) -> tuple[Value, Value]:
    """Both operands with one element type: ``dtype``, or their common one."""
    if len(call.args) < 2:
        call.fail("operand 1 is missing")
    dtype = dtype or common_dtype(call, (call.args[0], call.args[1]))
    return tuple(call.cast(call.tensor(i, dtype), dtype) for i in (0, 1))  # type: ignore[return-value]


def widened(call: Call, *values: Value) -> list[Value]:
    """``values`` in the element type that the node declares for its result.

    A product whose result is wider than its operands (int8 operands, int32 result) is one of wide numbers: computed in
    the operands' type it would wrap around before it is widened.
    """
    dtype = call.result_dtype() or common_dtype(call, values)
    return [call.cast(value, dtype) for value in values]


def arithmetic(op: str) -> Callable[[Call], Value]:
    """A converter to ``op`` in the element type of the result."""

    def convert(call: Call) -> Value:
        return call.emit(op, *operands(call, call.result_dtype()))

    return convert


for _primitive, _op in {
    "Add": "Add",
    "Sub": "Sub",
    "Mul": "Mul",
    "Muls": "Mul",
    "Div": "Div",
    "Divs": "Div",
    "RealDiv": "Div",
    "Pow": "Pow",
    "PowTensorScalar": "Pow",
    "PowScalarTensor": "Pow",
    "Maximum": "Max",
    "Minimum": "Min",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseAndTensor": "BitwiseAnd",
    "BitwiseAndScalar": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseOrTensor": "BitwiseOr",
    "BitwiseOrScalar": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "BitwiseXorTensor": "BitwiseXor",
    "BitwiseXorScalar": "BitwiseXor",
}.items():
    converter(_primitive)(arithmetic(_op))


def _comparison(op: str, negated: bool = False) -> Callable[[Call], Value]:
    def convert(call: Call) -> Value:
        result = call.emit(op, *operands(call))
        return call.emit("Not", result) if negated else result

    return convert


for _primitive, _op in {
    "Equal": "Equal",
    "EqScalar": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "GreaterEqualScalar": "GreaterOrEqual",
    "Less": "Less",
    "LessScalar": "Less",
    "LessEqual": "LessOrEqual",
}.items():
    converter(_primitive)(_comparison(_op))
converter("NotEqual", "NeScalar")(_comparison("Equal", negated=True))


@converter("EqualExt")
def equal_tensors(call: Call) -> Value:
    """Whether two tensors are equal as wholes, in shape and in every element: one truth value, not one per element."""
    left, right = operands(call)
    if left.shape is not None and right.shape is not None:
        if len(left.shape) != len(right.shape) or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(left.shape, right.shape, strict=True)
        ):
            return _one_truth(call, call.const(False))
        if None not in left.shape and left.shape == right.shape:
            return _one_truth(call, _all(call, call.emit("Equal", left, right)))
    # The sizes are only known at run time: as many elements are compared as both have.
    for value in (left, right):
        call.rank(value)  # shapes of unknown ranks could not be compared
    sizes = [call.emit("Shape", value) for value in (left, right)]
    flat = [call.emit("Reshape", value, call.ints([-1])) for value in (left, right)]
    counts = [call.emit("Shape", value) for value in flat]
    least = call.emit("Min", *counts)
    cut = [call.emit("Slice", value, call.ints([0]), least, call.ints([0])) for value in flat]
    same = call.emit("And", _all(call, call.emit("Equal", *cut)), _all(call, call.emit("Equal", *counts)))
    same = call.emit("And", same, _all(call, call.emit("Equal", *sizes)))
    return _one_truth(call, same)


def _one_truth(call: Call, truth: Value) -> Value:
    """A truth value with as many axes of one as the node declares."""
    declared = call.declared.shape if isinstance(call.declared, TensorType) else None
    return call.emit("Reshape", truth, call.ints([1] * len(declared or ())))


def _all(call: Call, truths: Value) -> Value:
    """Whether all elements hold, as a scalar; of no elements they do."""
    false = call.emit("ReduceSum", call.cast(call.emit("Not", truths), I64), None, keepdims=0)
    return call.emit("Equal", false, call.const(0, I64))


@converter("AllFinite")
def all_finite(call: Call) -> Value:
    """Whether any of some tensors has an element that is NaN or infinite: one truth value."""
    found = [
        call.emit("Not", _all(call, call.emit("Not", call.emit("Or", call.emit("IsNaN", v), call.emit("IsInf", v)))))
        for v in call.tensors(0)
    ]
    result = found[0]
    for other in found[1:]:
        result = call.emit("Or", result, other)
    return _one_truth(call, result)


@converter("ApproximateEqual")
def approximately_equal(call: Call) -> Value:
    """|x - y| below a tolerance, element by element."""
    left, right = operands(call)
    apart = call.emit("Abs", call.emit("Sub", left, right))
    return call.emit("Less", apart, call.like(float(call.argument(2, "tolerance", 1e-5)), apart))


@converter("EqualCount")
def equal_count(call: Call) -> Value:
    """How many elements are equal, as a vector of one number of the operands' type."""
    left, right = operands(call)
    same = call.cast(call.emit("Equal", left, right), I64)
    return call.cast(call.emit("Reshape", call.emit("ReduceSum", same, None, keepdims=0), call.ints([1])), left.dtype)


def _logical(op: str) -> Callable[[Call], Value]:
    return lambda call: call.emit(op, *operands(call, BOOL))


for _primitive, _op in {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}.items():
    converter(_primitive)(_logical(_op))


def scaled(call: Call, op: str) -> Value:
    """x op alpha * y."""
    dtype = call.result_dtype()
    left, right = operands(call, dtype)
    alpha = call.argument(2, "alpha", 1)
    if alpha != 1:
        right = call.emit("Mul", right, call.like(alpha, right))
    return call.emit(op, left, right)


@converter("AddExt", "AddScalar")
def add_ext(call: Call) -> Value:
    """x + alpha * y."""
    return scaled(call, "Add")


@converter("SubExt", "SubScalar")
def sub_ext(call: Call) -> Value:
    """x - alpha * y."""
    return scaled(call, "Sub")


def floor_divided(call: Call, left: Value, right: Value) -> Value:
    """Division rounded down; ONNX rounds that of integers towards zero."""
    quotient = call.emit("Div", left, right)
    if call.dtype(left).kind not in "iu":
        return call.emit("Floor", quotient)
    if call.dtype(left).kind == "u":
        return quotient
    zero = call.like(0, left)
    rest = call.emit("Mod", left, right)  # with the sign of the divisor: the quotient is exact without it
    return call.emit(
        "Where", call.emit("Equal", rest, zero), quotient, call.emit("Div", call.emit("Sub", left, rest), right)
    )


@converter("FloorDiv", "FloorDivScalar")
def floor_div(call: Call) -> Value:
    """Division rounded down."""
    return floor_divided(call, *operands(call, call.result_dtype()))


@converter("TruncateDiv")
def truncate_div(call: Call) -> Value:
    """Division rounded towards zero."""
    return truncated(call, call.emit("Div", *operands(call, call.result_dtype())))


@converter("DivMod", "DivMods")
def div_mod(call: Call) -> Value:
    """Division, rounded as the third operand says: not at all (None), towards zero (1), down (2)."""
    mode = call.argument(2, "rounding_mode", None)
    left, right = operands(call, call.result_dtype())
    if mode in (None, 0):
        return call.emit("Div", left, right)
    if mode in (2, "floor"):
        return floor_divided(call, left, right)
    if mode not in (1, "trunc"):
        call.fail(f"unknown rounding mode {mode!r}")
    return truncated(call, call.emit("Div", left, right))


@converter("FloorMod", "RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor")
def floor_mod(call: Call) -> Value:
    """The remainder with the sign of the divisor."""
    left, right = operands(call, call.result_dtype())
    if call.dtype(left).kind in "iu":
        return call.emit("Mod", left, right)
    return call.emit("Sub", left, call.emit("Mul", call.emit("Floor", call.emit("Div", left, right)), right))


@converter("Mod", "TruncateMod", "FmodTensor", "FmodScalar")
def mod(call: Call) -> Value:
    """The remainder with the sign of the dividend."""
    return call.emit("Mod", *operands(call, call.result_dtype()), fmod=1)


@converter("SquaredDifference")
def squared_difference(call: Call) -> Value:
    """(x - y) squared."""
    difference = call.emit("Sub", *operands(call, call.result_dtype()))
    return call.emit("Mul", difference, difference)


@converter("DivNoNan")
def div_no_nan(call: Call) -> Value:
    """x / y, but 0 where y is 0."""
    left, right = operands(call, call.result_dtype())
    zero = call.like(0, right)
    return call.emit("Where", call.emit("Equal", right, zero), call.like(0, left), call.emit("Div", left, right))


@converter("Select", "SelectV2")
def select(call: Call) -> Value:
    """x where the condition holds, y elsewhere."""
    dtype = call.result_dtype() or common_dtype(call, (call.args[1], call.args[2]))
    yes, no = (call.cast(call.tensor(i, dtype), dtype) for i in (1, 2))
    return call.emit("Where", call.cast(call.tensor(0), BOOL), yes, no)


@converter("MaskedFill", "MaskedFillScalar")
def masked_fill(call: Call) -> Value:
    """A number where the mask holds, x elsewhere."""
    value = call.tensor(0)
    fill = call.cast(call.tensor(2, value.dtype), value.dtype)
    return call.emit("Where", call.cast(call.tensor(1), BOOL), fill, value)


@converter("ClampScalar", "ClampTensor", "Hardtanh", "ClipByValue")
def clamp(call: Call) -> Value:
    """Between two bounds, either of which may be None. Where they are tensors they broadcast."""
    value = call.cast(call.tensor(0), call.result_dtype())
    for index, op in ((1, "Max"), (2, "Min")):
        if call.has(index):
            bound = call.cast(call.tensor(index, value.dtype), value.dtype)
            if bound.shape == ():
                value = call.emit("Clip", value, bound if op == "Max" else None, bound if op == "Min" else None)
            else:
                value = call.emit(op, value, bound)
    return value


@converter("Lerp", "LerpScalar")
def lerp(call: Call) -> Value:
    """x + weight * (y - x)."""
    start, end = operands(call, call.result_dtype())
    weight = call.cast(call.tensor(2, start.dtype), start.dtype)
    return call.emit("Add", start, call.emit("Mul", weight, call.emit("Sub", end, start)))


@converter("Addcmul", "AddcmulExt")
def addcmul(call: Call) -> Value:
    """x + value * a * b."""
    return _combined(call, "Mul")


@converter("Addcdiv", "AddcdivExt")
def addcdiv(call: Call) -> Value:
    """x + value * a / b."""
    return _combined(call, "Div")


def _combined(call: Call, op: str) -> Value:
    dtype = call.result_dtype() or call.dtype(call.tensor(0))
    base, a, b = (call.cast(call.tensor(i, dtype), dtype) for i in range(3))
    product = call.emit(op, a, b)
    if call.has(3):
        product = call.emit("Mul", product, call.cast(call.tensor(3, dtype), dtype))
    return call.emit("Add", base, product)


@converter("AddN", "AccumulateNV2")
def add_n(call: Call) -> Value:
    """The sum of any number of tensors."""
    values = call.tensors(0)
    return values[0] if len(values) == 1 else call.emit("Sum", *values)


@converter("Xdivy")
def xdivy(call: Call) -> Value:
    """x / y, but 0 where x is 0."""
    left, right = operands(call, call.result_dtype())
    zero = call.like(0, left)
    return call.emit("Where", call.emit("Equal", left, zero), zero, call.emit("Div", left, right))


@converter("Xlogy")
def xlogy(call: Call) -> Value:
    """x * log(y), but 0 where x is 0."""
    left, right = operands(call, call.result_dtype())
    zero = call.like(0, left)
    product = call.emit("Mul", left, call.emit("Log", right))
    return call.emit("Where", call.emit("Equal", left, zero), zero, product)


@converter("IsClose")
def is_close(call: Call) -> Value:
    """|x - y| <= atol + rtol * |y|, or both the same infinity, or (if so asked) both NaN."""
    left, right = operands(call)
    relative, absolute = float(call.argument(2, "rtol", 1e-5)), float(call.argument(3, "atol", 1e-8))
    allowed = call.emit("Mul", call.emit("Abs", right), call.like(relative, right))
    allowed = call.emit("Add", allowed, call.like(absolute, right))
    near = call.emit("LessOrEqual", call.emit("Abs", call.emit("Sub", left, right)), allowed)
    infinite = call.emit("Or", call.emit("IsInf", left), call.emit("IsInf", right))
    near = call.emit("Or", call.emit("And", near, call.emit("Not", infinite)), call.emit("Equal", left, right))
    if call.argument(4, "equal_nan", False):
        near = call.emit("Or", near, call.emit("And", call.emit("IsNaN", left), call.emit("IsNaN", right)))
    return near


@converter("BitwiseNot", "Invert")
def bitwise_not(call: Call) -> Value:
    """Every bit the other way."""
    value = call.tensor(0)
    return call.emit("Not" if value.dtype == BOOL else "BitwiseNot", value)


@converter("Heaviside")
def heaviside(call: Call) -> Value:
    """0 below zero, 1 above, y at zero; NaN stays."""
    left, right = operands(call, call.result_dtype())
    zero = call.like(0, left)
    step = call.emit("Where", call.emit("Less", left, zero), zero, call.like(1, left))
    step = call.emit("Where", call.emit("Equal", left, zero), right, step)
    return call.emit("Where", call.emit("IsNaN", left), left, step) if call.dtype(left).kind == "f" else step


@converter("Hypot")
def hypot(call: Call) -> Value:
    """sqrt(x * x + y * y)."""
    left, right = operands(call, call.result_dtype())
    return call.emit("Sqrt", call.emit("Add", call.emit("Mul", left, left), call.emit("Mul", right, right)))


@converter("LogAddExp")
def log_add_exp(call: Call) -> Value:
    """log(exp(x) + exp(y)), by way of the larger one."""
    left, right = operands(call, call.result_dtype())
    most, apart = call.emit("Max", left, right), call.emit("Abs", call.emit("Sub", left, right))
    rest = call.emit("Softplus", call.emit("Neg", apart))
    # Of two equal infinities the difference is NaN, but the result is that infinity.
    same = call.emit("Equal", left, right)
    return call.emit("Add", most, call.emit("Where", same, call.like(float(np.log(2.0)), left), rest))


@converter("Atan2", "Atan2Ext")
def atan2(call: Call) -> Value:
    """The angle of the point (y, x)."""
    return angle_of(call, *operands(call, call.result_dtype()))


def angle_of(call: Call, up: Value, along: Value) -> Value:
    """The angle of the point (y, x), from -pi to pi."""
    zero, pi = call.like(0.0, up), call.like(float(np.pi), up)
    angle = call.emit("Atan", call.emit("Div", up, along))
    turn = call.emit("Where", call.emit("Less", up, zero), call.emit("Neg", pi), pi)
    angle = call.emit("Where", call.emit("Less", along, zero), call.emit("Add", angle, turn), angle)
    both = call.emit("And", call.emit("Equal", up, zero), call.emit("Equal", along, zero))
    return call.emit("Where", both, zero, angle)
