"""Convolutions of quantised tensors as convolutions of integers whose sums are scaled.

With x = (q - z) * s and w = (r - v) * t::

    sum(x * w) = s * t * sum((q - z) * (r - v))

The sum is exact in 32 bits; in float32 it would be rounded at each addition. ``t`` is one number for each filter.
"""

from __future__ import annotations

import math

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import (
    Builder,
    Match,
    Refusal,
    RewriteRule,
    const,
    constant_hint,
    not_constant,
    op,
    spread,
    var,
)
from autofusion_rules_quantised.scales import MOST, SMALL, factors, has_one_scale, real_of


def _real_vector(value: Value | None) -> np.ndarray | None:
    """A constant vector of float32, which may be dequantised from one."""
    node = None if value is None else value.producer
    if value is None or value.const is not None or node is None or node.op != "DequantizeLinear":
        return None if value is None else value.const
    return real_of(node)


def _sums(builder: Builder, node: Node, x: Value, x_zero: Value | None, w: Value, w_zero: Value | None) -> Value:
    """The integers that the convolution ``node`` of dequantised tensors scales."""
    return builder.node("ConvInteger", [x, w, x_zero, w_zero], dict(node.attrs), name=node.name).output


def _refusal(node: Node, x: Value, w: Value, w_zero: Value | None, axis: int) -> Refusal | None:
    for value in (x, w):
        if value.dtype not in SMALL:
            return Refusal(f"{node.label}: '{value.name}' is {value.type}, not of 8-bit integers", value)
    if w.const is None:
        return Refusal(f"{node.label}: {not_constant(w)}", w, constant_hint(w))
    if axis % w.const.ndim:
        return Refusal(f"{node.label}: the scales of '{w.name}' lie along axis {axis}, not along its filters", w)
    if w_zero is not None and w_zero.const is None:
        return Refusal(f"{node.label}: {not_constant(w_zero)}", w_zero, constant_hint(w_zero))
    inner = math.prod(w.const.shape[1:])
    if inner > MOST:
        return Refusal(f"{node.label}: its sums are of {inner} products, of which {MOST} fit in 32 bits", node)
    return None


def _scaled(builder: Builder, sums: Value, factor: np.ndarray, filters: int, rank: int) -> Value:
    """The sums as float32 times one factor for each filter."""
    whole = np.broadcast_to(factor, (filters,)).astype(np.float32)
    real = builder.op("Cast", sums, to=np.dtype(np.float32))
    return builder.op("Mul", real, builder.constant(spread(whole, rank, 1), name="factor"))


def _rewrite_qdq(match: Match, builder: Builder) -> list[Value] | Refusal:
    node, w = match.root, match["w"]
    source, weights = match.node("source"), match.node("weights")
    x, x_zero, w_zero, b = source.inputs[0], source.operand(2), weights.operand(2), match.get("b")
    assert x is not None
    if not has_one_scale(source):
        scale = source.inputs[1]
        assert scale is not None
        return Refusal(f"{node.label}: '{scale.name}' is {scale.type}, not one constant scale", scale)
    axis = 0 if match["w_scale"].shape in ((), (1,)) else attribute(weights, "axis")
    refusal = _refusal(node, x, w, w_zero, axis)
    if refusal is not None:
        return refusal
    scales = factors(match["x_scale"], match["w_scale"], label=node.label)
    if isinstance(scales, Refusal):
        return scales
    bias = _real_vector(b)
    if b is not None and bias is None:
        return Refusal(f"{node.label}: its bias '{b.name}' is not a constant", b, constant_hint(b))
    with np.errstate(all="ignore"):
        factor = scales[0] * scales[1]
    if not np.isfinite(factor).all():
        return Refusal(f"{node.label}: the product of its scales is not finite", node)
    assert w.const is not None
    filters, rank = w.const.shape[0], w.const.ndim
    result = _scaled(builder, _sums(builder, node, x, x_zero, w, w_zero), factor, filters, rank)
    if bias is not None:
        result = builder.op("Add", result, builder.constant(spread(bias, rank, 1), np.float32, name="bias"))
    return [result]


def _rewrite_qlinear(match: Match, builder: Builder) -> list[Value] | Refusal:
    node = match.root
    x, _, x_zero, w, _, w_zero, _, y_zero = node.inputs[:8]
    b = node.operand(8)
    assert x is not None and w is not None and y_zero is not None
    refusal = _refusal(node, x, w, w_zero, 0)
    if refusal is not None:
        return refusal
    scales = factors(*(v for v in (node.inputs[i] for i in (1, 4, 6)) if v is not None), label=node.label)
    if isinstance(scales, Refusal):
        return scales
    if y_zero.dtype not in SMALL or y_zero.shape not in ((), (1,)):
        return Refusal(f"{node.label}: '{y_zero.name}' is {y_zero.type}, not one zero point of 8 bits", y_zero)
    if b is not None and b.const is None:
        return Refusal(f"{node.label}: {not_constant(b)}", b, constant_hint(b))
    with np.errstate(all="ignore"):
        factor = scales[0] * scales[1] / scales[2]
    if not np.isfinite(factor).all():
        return Refusal(f"{node.label}: the factor of its scales is not finite", node)
    assert w.const is not None
    filters, rank = w.const.shape[0], w.const.ndim
    sums = _sums(builder, node, x, x_zero, w, w_zero)
    if b is not None and b.const is not None:
        sums = builder.op("Add", sums, builder.constant(spread(b.const, rank, 1), np.int32, name="bias"))
    scaled = _scaled(builder, sums, factor, filters, rank)
    return [builder.op("QuantizeLinear", scaled, builder.constant(1.0, np.float32, name="one"), y_zero, name=node.name)]


def _dequantised(x: str, data: object, name: str) -> object:
    return op("DequantizeLinear", data, var(f"{x}_scale"), var(f"{x}_zero", optional=True), name=name, shared=True)  # type: ignore[arg-type]


QDQ_RULE = RewriteRule(
    "quantised.qdq_conv",
    op(
        "Conv",
        _dequantised("x", var("x"), "source"),  # type: ignore[arg-type]
        _dequantised("w", const("w"), "weights"),  # type: ignore[arg-type]
        var("b", optional=True),
    ),
    _rewrite_qdq,
    doc="""Say a Conv of dequantised tensors as a convolution of integers whose sums are scaled.

    Before: %y = Conv(DequantizeLinear(%x, 0.5, %xz), DequantizeLinear(%w, %ws, %wz), %b)
    After:  %y = Add(Mul(Cast(ConvInteger(%x, %w, %xz, %wz)), 0.5 * %ws), %b)
    One scale for %x; one, or one for each filter, for %w; %b may be dequantised too. The sums are exact.
    Refuses when: a scale, the weights or the bias are not constants; a factor is not of 8-bit integers; the sums may
    leave 32 bits.
    """,
    portable=False,
)
QLINEAR_RULE = RewriteRule(
    "quantised.qlinear_conv",
    op("QLinearConv", *(var(f"x{i}") for i in range(8)), var("b", optional=True)),
    _rewrite_qlinear,
    doc="""Say a QLinearConv as a convolution of integers and the quantisation of its scaled sums.

    Before: %y = QLinearConv(%x, 0.5, %xz, %w, %ws, %wz, 2.0, %yz, %b)
    After:  %y = QuantizeLinear(Mul(Cast(Add(ConvInteger(%x, %w, %xz, %wz), %b)), 0.25 * %ws), 1.0, %yz)
    Refuses when: a scale, the weights or the bias are not constants; the result has several zero points; the sums may
    leave 32 bits.
    """,
    portable=False,
)

RULES = (QDQ_RULE, QLINEAR_RULE)
