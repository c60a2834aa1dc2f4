"""QLinearMatMul as an integer product whose scaled sums are quantised.

    saturate(round(float(sum((a - a_zero) * (b - b_zero))) * (a_scale * b_scale / y_scale)) + y_zero)

The factor of the scales is one constant in float32, computed in this order, since its last bit decides how ties are
rounded; quantising by a scale of one then rounds and saturates as the operator does.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.rules import Builder, Match, Refusal, RewriteRule, op, var
from autofusion_rules_quantised.scales import MOST, SMALL, factors

_SCALES = (1, 4, 6)


def _rewrite(match: Match, builder: Builder) -> list[Value] | Refusal:
    node = match.root
    refusal = _refusal(node)
    if refusal is not None:
        return refusal
    a, _, a_zero, b, _, b_zero, _, y_zero = node.inputs
    assert a is not None and a.shape is not None
    scales = factors(*(v for v in (node.inputs[i] for i in _SCALES) if v is not None), label=node.label)
    if isinstance(scales, Refusal):
        return scales
    a_scale, b_scale, y_scale = scales
    rows = len(a.shape) > 1
    with np.errstate(all="ignore"):
        factor = _of_rows(a_scale, rows) * b_scale / _of_rows(y_scale, rows)
    if not np.isfinite(factor).all():
        return Refusal(f"{node.label}: the factor of its scales is not finite", node)
    sums = builder.op("MatMulInteger", a, b, a_zero, b_zero)
    real = builder.op("Cast", sums, to=np.dtype(np.float32))
    scaled = builder.op("Mul", real, builder.constant(factor, np.float32, name="factor"))
    one = builder.constant(1.0, np.float32, name="one")
    return [builder.op("QuantizeLinear", scaled, one, y_zero, name=node.name)]


def _refusal(node: Node) -> Refusal | None:
    a, y_zero = node.inputs[0], node.inputs[7]
    assert a is not None and y_zero is not None
    for value in (a, node.inputs[3], y_zero):
        assert value is not None
        if value.dtype not in SMALL:
            return Refusal(f"{node.label}: '{value.name}' is {value.type}, not of 8-bit integers", value)
    if y_zero.shape not in ((), (1,)):
        return Refusal(f"{node.label}: '{y_zero.name}' is {y_zero.type}, not one zero point", y_zero)
    inner = a.shape[-1] if a.shape else None
    if not isinstance(inner, int) or inner > MOST:
        return Refusal(f"{node.label}: its sums are of {inner} products, of which {MOST} fit in 32 bits", a)
    return None


def _of_rows(scale: np.ndarray, rows: bool) -> np.ndarray:
    """One scale for each row as a column."""
    return scale[:, None] if scale.ndim == 1 and rows else scale


RULE = RewriteRule(
    "quantised.qlinear_matmul",
    op("QLinearMatMul", *(var(f"x{i}") for i in range(8))),
    _rewrite,
    doc="""Say a QLinearMatMul as an integer product and the quantisation of its scaled sums.

    Before: %y = QLinearMatMul(%a, 0.5, %az, %b, 0.25, %bz, 2.0, %yz)
    After:  %y = QuantizeLinear(Mul(Cast(MatMulInteger(%a, %b, %az, %bz)), 0.0625), 1.0, %yz)
    Refuses when: a scale is not a constant; the result has several zero points; the sums may leave 32 bits.
    """,
    portable=False,
)

RULES = (RULE,)
