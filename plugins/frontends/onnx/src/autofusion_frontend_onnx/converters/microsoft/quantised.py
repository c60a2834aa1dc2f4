"""Quantised operators: dequantise, compute, quantise. Integer products stay integer."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.quantised import quantize
from autofusion_frontend_onnx.converters.windows import explicit_pads
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"

converter("QuantizeLinear", "DequantizeLinear", domain=_MS)(quantize)


def _real(call: Call, x: int, scale: int, zero: int) -> Value:
    return call.emit("DequantizeLinear", call.operand(x), _one(call, scale), _one(call, zero))


def _one(call: Call, index: int) -> Value | None:
    value = call.optional(index)
    if value is None or value.shape != (1,):
        return value
    return call.emit("Reshape", value, call.ints([]))


def _integer(call: Call, y: Value, scale: int, zero: int, like: int = 0) -> list[Value]:
    zero_point = _one(call, zero)
    if zero_point is None:
        zero_point = call.const(0, call.dtype(call.operand(like)), "zero")
    return call.result("QuantizeLinear", [y, _one(call, scale), zero_point], {})


@converter("QLinearAdd", "QLinearMul", domain=_MS)
def binary(call: Call) -> list[Value]:
    """Operands (a, scale, zero, b, scale, zero), result (scale, zero)."""
    y = call.emit(call.op.removeprefix("QLinear"), _real(call, 0, 1, 2), _real(call, 3, 4, 5))
    return _integer(call, y, 6, 7)


@converter("QLinearSigmoid", "QLinearLeakyRelu", domain=_MS)
def unary(call: Call) -> list[Value]:
    """Operands (x, scale, zero), result (scale, zero)."""
    y = call.emit(call.op.removeprefix("QLinear"), _real(call, 0, 1, 2), **call.attrs)
    return _integer(call, y, 3, 4)


@converter("QLinearSoftmax", domain=_MS)
def softmax(call: Call) -> list[Value]:
    """``opset`` tells by which version's meaning ``axis`` is read."""
    x, axis = _real(call, 0, 1, 2), call.attr("axis", -1)
    if call.attr("opset", 13) >= 13 or axis in (-1, call.rank(x) - 1):
        return _integer(call, call.emit("Softmax", x, axis=axis), 3, 4)
    flat = call.emit("Softmax", call.emit("Flatten", x, axis=axis), axis=1)
    return _integer(call, call.emit("Reshape", flat, call.emit("Shape", x), allowzero=1), 3, 4)


@converter("QLinearAveragePool", "QLinearGlobalAveragePool", domain=_MS)
def average_pool(call: Call) -> list[Value]:
    """Pooling, with the channels last if the attribute says so."""
    x = _real(call, 0, 1, 2)
    rank, last = call.rank(x), call.attr("channels_last", 0)
    attrs = call.without("channels_last")
    if last:
        x = call.emit("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])
    elif call.op == "QLinearAveragePool":
        attrs = explicit_pads(call, attrs, call.attr("kernel_shape"))
    y = call.emit(call.op.removeprefix("QLinear"), x, **attrs)
    if last:
        y = call.emit("Transpose", y, perm=[0, *range(2, rank), 1])
    return _integer(call, y, 3, 4)


@converter("QLinearReduceMean", domain=_MS)
def reduce_mean(call: Call) -> list[Value]:
    """Axes are an attribute."""
    x, axes = _real(call, 0, 1, 2), call.attr("axes")
    operands = [x] if not axes else [x, call.ints(axes, "axes")]
    return _integer(call, call.emit("ReduceMean", *operands, keepdims=call.attr("keepdims", 1)), 3, 4)


@converter("QLinearConcat", domain=_MS)
def concat(call: Call) -> list[Value]:
    """Operands (scale, zero) of the result, then (x, scale, zero) of each part."""
    parts = [_real(call, i, i + 1, i + 2) for i in range(2, len(call.inputs), 3)]
    return _integer(call, call.emit("Concat", *parts, axis=call.attr("axis")), 0, 1, like=2)


@converter("QLinearWhere", domain=_MS)
def where(call: Call) -> list[Value]:
    """Operands (condition, x, scale, zero, y, scale, zero), result (scale, zero)."""
    y = call.emit("Where", call.operand(0), _real(call, 1, 2, 3), _real(call, 4, 5, 6))
    return _integer(call, y, 7, 8, like=1)


@converter("QGemm", domain=_MS)
def gemm(call: Call) -> list[Value]:
    """Operands (a, scale, zero, b, scale, zero, c), result (scale, zero); without a scale the result is real.

    Sums are integers, and so is ``c``; they are scaled by ``alpha * a_scale * b_scale / y_scale``, in this order.
    """
    a, b = (
        call.emit("Transpose", call.operand(i), perm=[1, 0]) if call.attr(name, 0) else call.operand(i)
        for i, name in ((0, "transA"), (3, "transB"))
    )
    sums = call.emit("MatMulInteger", a, b, _one(call, 2), _one(call, 5))
    if call.optional(6) is not None:
        sums = call.emit("Add", sums, call.optional(6))
    a_scale, b_scale, y_scale = (_one(call, i) for i in (1, 4, 7))
    assert a_scale is not None and b_scale is not None
    scale = call.emit("Mul", call.like(call.attr("alpha", 1.0), a_scale, "alpha"), a_scale)
    scale = call.emit("Mul", scale, b_scale)
    if y_scale is not None:
        scale = call.emit("Div", scale, y_scale)
    y = call.emit("Mul", call.emit("Cast", sums, to=F32), scale)
    if y_scale is None:
        return [y]
    zero = _one(call, 8)
    if zero is None:
        zero = call.const(0, call.dtype(call.operand(0)), "zero")
    return call.result("QuantizeLinear", [y, call.like(1.0, y_scale, "one"), zero], {})


@converter("DynamicQuantizeMatMul", domain=_MS)
def dynamic_quantize_matmul(call: Call) -> list[Value]:
    """A real operand is quantised by its own range; the product is integer; the bias is real."""
    a, scale, zero = call.node("DynamicQuantizeLinear", [call.operand(0)], outputs=3).outputs
    return _scaled_product(call, a, call.operand(1), scale, call.operand(2), zero, call.optional(3), call.optional(4))


@converter("MatMulIntegerToFloat", domain=_MS)
def matmul_integer_to_float(call: Call) -> list[Value]:
    """An integer product, scaled to a real one."""
    a, b, a_scale, b_scale = (call.operand(i) for i in range(4))
    return _scaled_product(call, a, b, a_scale, b_scale, call.optional(4), call.optional(5), call.optional(6))


def _scaled_product(
    call: Call,
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero: Value | None,
    b_zero: Value | None,
    bias: Value | None,
) -> list[Value]:
    product = call.emit("Cast", call.emit("MatMulInteger", a, b, a_zero, b_zero), to=F32)
    y = call.emit("Mul", product, call.emit("Mul", a_scale, b_scale))
    return [y if bias is None else call.emit("Add", y, bias)]


@converter("ReduceSumInteger", domain=_MS)
def reduce_sum_integer(call: Call) -> list[Value]:
    """A sum in 32 bits."""
    x = call.emit("Cast", call.operand(0), to=np.dtype(np.int32))
    return call.result("ReduceSum", [x, call.ints(call.attr("axes"))], {"keepdims": call.attr("keepdims", 1)})
