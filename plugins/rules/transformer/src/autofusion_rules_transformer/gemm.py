"""One form of Gemm: factors and transposition of constants done once, Transposes of matrices taken in.

A Gemm with constant weights then has no attributes, and whoever looks for products with an epilogue sees MatMul, or
Gemm with a plain bias.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import (
    Builder,
    Match,
    Refusal,
    RewriteRule,
    Stage,
    either,
    fits_into,
    is_float,
    is_parameter,
    not_constant,
    op,
    var,
)


def _foldable(node: Node) -> bool:
    """True if a constant could do what an attribute says."""
    b, c = node.inputs[1], node.operand(2)
    if not is_float(b):  # integers are scaled as floating-point numbers, and rounded behind the sum
        return False
    constant_b = b is not None and b.const is not None
    if constant_b and (attribute(node, "transB") or attribute(node, "alpha") != 1.0):
        return True
    if attribute(node, "beta") == 1.0:
        return False
    return c is None or c.const is not None


def _folded(node: Node) -> tuple[np.ndarray | None, np.ndarray | None]:
    """New constants for the weight and the bias; None where the operand stays."""
    b, c = node.inputs[1], node.operand(2)
    weight = bias = None
    if b is not None and b.const is not None and (attribute(node, "transB") or attribute(node, "alpha") != 1.0):
        weight = b.const.T if attribute(node, "transB") else b.const
        if attribute(node, "alpha") != 1.0:
            weight = (weight.astype(np.float64) * attribute(node, "alpha")).astype(b.const.dtype)
        weight = np.ascontiguousarray(weight)
    if c is not None and c.const is not None and attribute(node, "beta") != 1.0:
        bias = (c.const.astype(np.float64) * attribute(node, "beta")).astype(c.const.dtype)
    return weight, bias


def _constants(match: Match, builder: Builder) -> list[Value] | Refusal:
    node = match.root
    weight, bias = _folded(node)
    for array in (weight, bias):
        if array is not None and not np.isfinite(array.astype(np.float64)).all():
            return Refusal(f"{node.label}: a folded constant would not be finite", node)
    attrs = dict(node.attrs)
    operands = list(node.inputs)
    if weight is not None:
        operands[1] = builder.constant(weight, name="weight")
        attrs |= {"transB": 0, "alpha": 1.0}
    if bias is not None:
        operands[2] = builder.constant(bias, name="bias")
    if bias is not None or node.operand(2) is None:
        attrs["beta"] = 1.0
    return [builder.node("Gemm", operands, attrs, name=node.name).output]


GEMM_CONSTANTS = RewriteRule(
    "transformer.gemm_constants",
    op("Gemm", open_inputs=True, where=_foldable),
    _constants,
    stage=Stage.CANONICALISE,
    doc="""Apply the factors and the transposition of a Gemm to its constants, once.

    Before: %y = Gemm(%a, %b, %c) {alpha = 2, beta = 3, transB = 1}      %b, %c: constants
    After:  %y = Gemm(%a, transpose(%b) * 2, %c * 3)
    Refuses when: a folded number would not be finite.
    """,
)

# ---- Transposes ----------------------------------------------------------------------------------------------------

_SWAP = op("Transpose", var("t"), perm=lambda perm: perm is None or list(perm) == [1, 0], name="transpose")


def _is_matrix(value: Value | None) -> bool:
    return value is not None and value.shape is not None and len(value.shape) == 2 and is_float(value)


def _no_matrix(product: Node) -> Refusal | None:
    """Why the factors of ``product`` are not operands of a Gemm; None if they are."""
    for value in product.inputs[:2]:
        if not _is_matrix(value):
            reason = f"{product.label}: an operand is not a floating-point matrix"
            if value is None:
                return Refusal(reason, product)
            hint = f"would apply if '{value.name}' had 2 dims" if is_float(value) else ""
            return Refusal(f"{reason}: '{value.name}' is {value.type}", value, hint)
    return None


def _gemm(match: Match, builder: Builder) -> list[Value] | Refusal:
    root, transpose = match.root, match.node("transpose")
    refusal = _no_matrix(root)
    if refusal is not None:
        return refusal
    index = 0 if root.inputs[0] is transpose.output else 1
    name = ("transA", "transB")[index]
    attrs = dict(root.attrs) if root.op == "Gemm" else {}
    attrs[name] = int(not attrs.get(name, 0))
    operands = list(root.inputs)
    operands[index] = match["t"]
    return [builder.node("Gemm", operands, attrs, name=root.name).output]


GEMM_TRANSPOSE = RewriteRule(
    "transformer.gemm_transpose",
    either(
        op("Gemm", _SWAP, var("other"), open_inputs=True),
        op("Gemm", var("other"), _SWAP, open_inputs=True),
        op("MatMul", var("other"), _SWAP),
        op("MatMul", _SWAP, var("other")),
    ),
    _gemm,
    doc="""Take the Transpose of a matrix into the product.

    Before: %y = MatMul(%a, Transpose(%b) {perm = [1, 0]})
    After:  %y = Gemm(%a, %b) {transB = 1}
    Also for the first operand, and where it is a Gemm already (not for its bias).
    Refuses when: an operand is not a matrix, or not of a floating-point type; the Transpose is used elsewhere.
    """,
)

# ---- bias ----------------------------------------------------------------------------------------------------------


def _adds_to_matrix(node: Node) -> bool:
    """True if something stored is added to a product of matrices: all else is for other rules, and is no near-miss."""
    pairs = (node.inputs, tuple(reversed(node.inputs)))
    for product, bias in pairs:
        if product is None or bias is None or product.producer is None or not is_parameter(bias):
            continue
        factors = product.producer.inputs[:2]
        if product.producer.op == "MatMul" and all(v is None or v.shape is None or len(v.shape) == 2 for v in factors):
            return True
    return False


def _with_bias(match: Match, builder: Builder) -> list[Value] | Refusal:
    product, bias = match.node("product"), match["bias"]
    refusal = _no_matrix(product)
    if refusal is not None:
        return refusal
    if bias.const is None:
        return Refusal(f"{match.root.label}: {not_constant(bias)}", bias)
    result = product.output.shape
    if bias.dtype != product.output.dtype or not fits_into(bias.shape, result):
        return Refusal(f"{match.root.label}: '{bias.name}' may enlarge the product", bias)
    return [builder.op("Gemm", *product.inputs, bias, name=product.name)]


GEMM_BIAS = RewriteRule(
    "transformer.gemm_bias",
    op(
        "Add",
        op("MatMul", var("a"), var("b"), name="product"),
        var("bias", where=is_parameter),
        where=_adds_to_matrix,
    ),
    _with_bias,
    stage=Stage.FOLD,
    priority=-10,
    doc="""Let the product of two matrices add its bias.

    Before: %y = Add(MatMul(%a, %b), %c)            %a, %b: matrices
    After:  %y = Gemm(%a, %b, %c)
    Refuses when: an operand has more than two axes; the bias is not a constant, may be overridden by the caller, or may
    enlarge the product; the product is used elsewhere.
    """,
)

RULES = (GEMM_CONSTANTS, GEMM_TRANSPOSE, GEMM_BIAS)
