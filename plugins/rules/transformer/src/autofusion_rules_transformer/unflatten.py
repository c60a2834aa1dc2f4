"""Products of higher rank that were flattened to matrices and back: one product, no Reshapes."""

from __future__ import annotations

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, attribute, names
from autofusion.rules import Builder, Match, RewriteRule, is_float, is_parameter, op, same_dim, same_shape, var

_RESHAPES = names(lambda schema: schema.view and schema.op_class is OpClass.MOVEMENT)


def _fits(node: Node) -> bool:
    """True if the shapes say that only the leading axes were flattened, and are restored."""
    product = None if node.inputs[0] is None else node.inputs[0].producer
    if product is None or product.op not in ("Gemm", "MatMul") or product.inputs[0] is None:
        return False
    flat = product.inputs[0].producer
    if flat is None or flat.op not in _RESHAPES or flat.inputs[0] is None:
        return False
    weight, x = product.inputs[1], flat.inputs[0].shape
    flattened, result = product.inputs[0].shape, node.output.shape
    if weight is None or weight.const is None or weight.const.ndim != 2 or not is_float(weight):
        return False
    if x is None or flattened is None or result is None or len(flattened) != 2 or len(x) < 3:
        return False
    if product.op == "Gemm" and not _is_plain(product):
        return False
    columns = weight.const.shape[1]
    return same_dim(x[-1], flattened[-1]) and same_shape(result[:-1], x[:-1]) and result[-1] == columns


def _is_plain(node: Node) -> bool:
    """A Gemm without factors and transpositions, and with a bias for each column at most."""
    c = node.operand(2)
    if attribute(node, "transA") or attribute(node, "transB") or attribute(node, "alpha") != 1.0:
        return False
    if c is None:
        return True
    return attribute(node, "beta") == 1.0 and c.shape is not None and all(d == 1 for d in c.shape[:-1])


def _rewrite(match: Match, builder: Builder) -> list[Value]:
    product = match.node("product")
    y = builder.op("MatMul", match["x"], match["weight"], name=product.name)
    c = product.operand(2) if product.op == "Gemm" else None
    return [y if c is None else builder.op("Add", y, c, name=match.root.name)]


UNFLATTEN_PRODUCT = RewriteRule(
    "transformer.unflatten_product",
    op(
        _RESHAPES,
        op(
            ("Gemm", "MatMul"),
            op(_RESHAPES, var("x"), open_inputs=True, shared=True),
            var("weight", where=is_parameter),
            name="product",
            open_inputs=True,
        ),
        open_inputs=True,
        where=_fits,
    ),
    _rewrite,
    doc="""Multiply in the shape that the value has.

    Before: %y = Reshape(MatMul(Reshape(%x, [6, 8]), %w), [2, 3, 4])        %x: [2, 3, 8]
    After:  %y = MatMul(%x, %w)
    Also for a Gemm with a bias, which becomes an Add.
    Refuses when: axes other than the leading ones are flattened; shapes are not known; the matrix is used elsewhere.
    """,
)

RULES = (UNFLATTEN_PRODUCT,)
