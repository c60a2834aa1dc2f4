"""Convolutions and matrix products with activations, addends, transposes or another layout."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.microsoft.activation import activated
from autofusion_frontend_onnx.converters.windows import explicit_pads, kernel_of
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"
_OWN = ("activation", "activation_params", "auto_pad")


@converter("FusedConv", domain=_MS)
def fused_conv(call: Call) -> list[Value]:
    """activation(conv(x, w, b) + z)."""
    attrs = explicit_pads(call, call.attrs, kernel_of(call, 1))
    y = call.emit("Conv", *call.inputs[:3], **_conv_attrs(attrs))
    if call.optional(3) is not None:
        y = call.emit("Add", y, call.optional(3))
    return [activated(call, y, call.attr("activation"), call.attr("activation_params", []))]


def _conv_attrs(attrs: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in attrs.items() if k not in ("activation", "activation_params")}


@converter("NhwcConv", "NhwcFusedConv", domain=_MS)
def nhwc_conv(call: Call) -> list[Value]:
    """Channels last, between Transposes; the weights keep their order, and an addend is channels-last too."""
    x = call.operand(0)
    first, last = _channels_first(call.rank(x)), _channels_last(call.rank(x))
    y = call.emit("Conv", call.emit("Transpose", x, perm=first), *call.inputs[1:3], **_conv_attrs(call.attrs))
    y = call.emit("Transpose", y, perm=last)
    if call.optional(3) is not None:
        y = call.emit("Add", y, call.optional(3))
    return [activated(call, y, call.attr("activation"), call.attr("activation_params", []))]


@converter("NhwcMaxPool", domain=_MS)
def nhwc_max_pool(call: Call) -> list[Value]:
    """Channels last, between Transposes."""
    x = call.operand(0)
    y = call.emit("MaxPool", call.emit("Transpose", x, perm=_channels_first(call.rank(x))), **call.attrs)
    return call.result("Transpose", [y], {"perm": _channels_last(call.rank(x))})


def _channels_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _channels_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


@converter("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=_MS)
def fused_matmul(call: Call) -> list[Value]:
    """activation(alpha * op(a) @ op(b))."""
    a = _transposed(call, call.operand(0), call.attr("transA", 0), call.attr("transBatchA", 0))
    b = _transposed(call, call.operand(1), call.attr("transB", 0), call.attr("transBatchB", 0))
    y, alpha = call.emit("MatMul", a, b), call.attr("alpha", 1.0)
    if alpha != 1.0:
        y = call.emit("Mul", y, call.like(alpha, y, "alpha"))
    names = ("activation_alpha", "activation_beta", "activation_gamma", "activation_axis")
    return [activated(call, y, call.attr("activation"), _stated(call, names))]


def _stated(call: Call, names: Sequence[str]) -> list[float]:
    return [call.attrs[n] for n in names if n in call.attrs]


def _transposed(call: Call, x: Value, swap: int, batch: int) -> Value:
    if not swap and not batch:
        return x
    rank = call.rank(x)
    if rank < 2:
        return x
    perm = list(range(rank))
    if batch:
        perm = [*range(1, rank - 1), 0, rank - 1]
    if swap:
        perm[-2:] = perm[-1], perm[-2]
    return call.emit("Transpose", x, perm=perm)


@converter("FusedGemm", domain=_MS)
def fused_gemm(call: Call) -> list[Value]:
    """activation(alpha * op(a) @ op(b) + beta * c)."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    attrs = call.without("activation", *names)
    y = call.emit("Gemm", *call.inputs, **attrs)
    return [activated(call, y, call.attr("activation"), _stated(call, names))]
