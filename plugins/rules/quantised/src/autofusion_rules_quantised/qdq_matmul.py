"""Products of quantised tensors by quantised constants as products of integers whose sums are scaled.

With x = (q - z) * s and w = (r - v) * t::

    sum(x * w) = s * t * sum((q - z) * (r - v))

``t`` is one number, or one for each column.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, Refusal, RewriteRule, const, constant_hint, op, var
from autofusion_rules_quantised.scales import MOST, SMALL, factors, has_one_scale, real_of


def _rewrite(match: Match, builder: Builder) -> list[Value] | Refusal:
    node, w = match.root, match.array("w")
    source, weights, b = match.node("source"), match.node("weights"), match.get("b")
    x = source.inputs[0]
    assert x is not None
    refusal = _refusal(node, source, x, match["w"])
    if refusal is not None:
        return refusal
    scales = factors(match["x_scale"], match["w_scale"], label=node.label)
    if isinstance(scales, Refusal):
        return scales
    x_scale, w_scale = scales
    w_zero = weights.operand(2)
    v = np.zeros((), w.dtype) if w_zero is None else w_zero.const
    if v is None:
        return Refusal(f"{node.label}: '{w_zero.name}' is not a constant", w_zero)  # type: ignore[union-attr]
    gemm = node.op == "Gemm"
    transposed = gemm and bool(attribute(node, "transB"))
    columns = 0 if transposed else w.ndim - 1
    if w_scale.ndim and (w_scale.ndim > 1 or attribute(weights, "axis") % w.ndim != columns):
        return Refusal(f"{node.label}: the scales of '{match['w'].name}' do not lie along its columns", match["w"])
    with np.errstate(all="ignore"):
        factor = np.broadcast_to(x_scale * w_scale, (w.shape[columns],)) if w.ndim > 1 else x_scale * w_scale
        factor = factor * np.float32(attribute(node, "alpha") if gemm else 1)
    if not np.isfinite(factor).all():
        return Refusal(f"{node.label}: the product of its scales is not finite", node)
    bias = None
    if b is not None:
        bias = b.const if b.const is not None else real_of(b.producer) if b.producer is not None else None
        if bias is None:
            return Refusal(f"{node.label}: its bias '{b.name}' is not a constant", b, constant_hint(b))
    factor_zero = builder.constant(v.reshape(()) if v.size == 1 else v, name="zero")
    matrix = builder.constant(np.ascontiguousarray(w.T), name=match["w"].name) if transposed else match["w"]
    sums = builder.op("MatMulInteger", x, matrix, source.operand(2), factor_zero, name=node.name)
    real = builder.op("Cast", sums, to=np.dtype(np.float32))
    y = builder.op("Mul", real, builder.constant(factor, np.float32, name="factor"))
    if bias is not None:
        beta = np.float32(attribute(node, "beta"))
        y = builder.op("Add", y, builder.constant(bias * beta, np.float32, name="bias"))
    return [y]


def _refusal(node: Node, source: Node, x: Value, w: Value) -> Refusal | None:
    for value in (x, w):
        if value.dtype not in SMALL:
            return Refusal(f"{node.label}: '{value.name}' is {value.type}, not of 8-bit integers", value)
    if not has_one_scale(source):
        scale = source.inputs[1]
        assert scale is not None
        return Refusal(f"{node.label}: '{scale.name}' is {scale.type}, not one constant scale", scale)
    if node.op == "Gemm" and attribute(node, "transA"):
        return Refusal(f"{node.label}: its first factor is transposed", node)
    inner = x.shape[-1] if x.shape else None
    if not isinstance(inner, int) or inner > MOST:
        return Refusal(f"{node.label}: its sums are of {inner} products, of which {MOST} fit in 32 bits", x)
    return None


def _dequantised(x: str, data: object, name: str) -> object:
    return op("DequantizeLinear", data, var(f"{x}_scale"), var(f"{x}_zero", optional=True), name=name, shared=True)  # type: ignore[arg-type]


_FACTORS = (_dequantised("x", var("x"), "source"), _dequantised("w", const("w"), "weights"))

RULE = RewriteRule(
    "quantised.qdq_matmul",
    op(("MatMul", "Gemm"), *_FACTORS, var("b", optional=True)),  # type: ignore[arg-type]
    _rewrite,
    doc="""Say a MatMul or Gemm of dequantised tensors as a product of integers whose sums are scaled.

    Before: %y = Gemm(DequantizeLinear(%x, 0.5, %xz), DequantizeLinear(%w, %ws, %wz), %b)
    After:  %y = Add(Mul(Cast(MatMulInteger(%x, %w, %xz, %wz)), 0.5 * %ws), %b)
    One scale for %x; one, or one for each column, for %w; %b may be dequantised too. The sums are exact.
    Refuses when: a scale, %w or %b are not constants; a factor is not of 8-bit integers; the sums may leave 32 bits.
    """,
    portable=False,
)

RULES = (RULE,)
