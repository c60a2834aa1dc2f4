"""Move reshapes of the leading axes below what works on the last axes alone.

Batched products want three axes, masks four: exporters reshape before and behind each product. A product, a Softmax and
a Transpose of the last two axes do not care how the axes before these are cut, so that the reshape can follow; it
meets the one that goes back, and both vanish.
"""

from __future__ import annotations

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.ir.types import Shape
from autofusion.rules import Builder, Match, RewriteRule, Stage, normal_axis, op, same_shape, var
from autofusion_rules_layout.reshape import RESHAPES


def _leading(value: Value | None, kept: int) -> Value | None:
    """What a reshape made ``value`` of, if the last ``kept`` axes stayed as they are."""
    node = None if value is None else value.producer
    source = None if node is None or node.op not in RESHAPES else node.inputs[0]
    if value is None or source is None or source.shape is None or value.shape is None:
        return None
    before, after = source.shape, value.shape
    if len(before) < kept or len(after) < kept or not same_shape(before[-kept:], after[-kept:]):
        return None
    return source


def _target(shape: Shape | None) -> list[int] | None:
    """A Reshape's target with at most one number left open; None if that does not say it."""
    if shape is None or 0 in shape or sum(not isinstance(d, int) for d in shape) > 1:
        return None
    return [d if isinstance(d, int) else -1 for d in shape]


def _reshaped(builder: Builder, value: Value, match: Match) -> list[Value]:
    target = _target(match.root.output.shape)
    assert target is not None
    return [builder.op("Reshape", value, builder.constant(target, "int64"))]


# ---- products -----------------------------------------------------------------------------------------------------


def _cut_alike(node: Node) -> bool:
    """True if both factors have had the same leading axes cut in the same way."""
    a, b = node.inputs
    x, y = _leading(a, 2), _leading(b, 2)
    if a is None or b is None or x is None or y is None or _target(node.output.shape) is None:
        return False
    assert x.shape is not None and y.shape is not None and a.shape is not None and b.shape is not None
    # One axis for all that lead is as long as they are, whatever their sizes.
    alike = len(a.shape) == len(b.shape) == 3 or same_shape(a.shape[:-2], b.shape[:-2])
    return alike and same_shape(x.shape[:-2], y.shape[:-2])


def _product(match: Match, builder: Builder) -> list[Value]:
    factors = [_leading(value, 2) for value in match.root.inputs]
    return _reshaped(builder, builder.node("MatMul", factors, name=match.root.name).output, match)


PRODUCT = RewriteRule(
    "layout.sink_batch_product",
    op(
        "MatMul",
        op(RESHAPES, open_inputs=True, shared=True),
        op(RESHAPES, open_inputs=True, shared=True),
        where=_cut_alike,
    ),
    _product,
    stage=Stage.FOLD,
    priority=-11,
    doc="""Move Reshapes of the leading axes below a product.

    Before: %y = MatMul(Reshape(%a, [8, 5, 4]), Reshape(%b, [8, 4, 6]))      %a: [2, 4, 5, 4], %b: [2, 4, 4, 6]
    After:  %y = Reshape(MatMul(%a, %b), [8, 5, 6])
    Refuses when: the factors' leading axes are not the same, or not cut alike; a shape is not known.
    """,
)

# ---- one operand --------------------------------------------------------------------------------------------------


def _on_last_axes(node: Node) -> bool:
    """True for a Softmax along the last axis and a Transpose of the last two, of a value cut before these."""
    value = node.inputs[0]
    if value is None or value.shape is None or _target(node.output.shape) is None:
        return False
    rank = len(value.shape)
    if node.op == "Transpose":
        perm = attribute(node, "perm")
        if rank < 3 or perm is None or list(perm) != [*range(rank - 2), rank - 1, rank - 2]:
            return False
        return _leading(value, 2) is not None
    return normal_axis(attribute(node, "axis"), rank) == rank - 1 and _leading(value, 1) is not None


def _last_axes(match: Match, builder: Builder) -> list[Value]:
    node = match.root
    source = _leading(node.inputs[0], 2 if node.op == "Transpose" else 1)
    assert source is not None and source.shape is not None
    rank = len(source.shape)
    attrs = {"perm": [*range(rank - 2), rank - 1, rank - 2]} if node.op == "Transpose" else {"axis": -1}
    return _reshaped(builder, builder.node(node.op, [source], attrs, name=node.name).output, match)


LAST_AXES = RewriteRule(
    "layout.sink_batch",
    op(("LogSoftmax", "Softmax", "Transpose"), op(RESHAPES, var("x"), open_inputs=True), where=_on_last_axes),
    _last_axes,
    stage=Stage.FOLD,
    priority=-11,
    doc="""Move a Reshape of the leading axes below what works on the last ones.

    Before: %y = Softmax(Reshape(%x, [8, 5, 6])) {axis = -1}       %x: [2, 4, 5, 6]
    After:  %y = Reshape(Softmax(%x) {axis = -1}, [8, 5, 6])
    A Softmax along the last axis, a Transpose of the last two.
    Refuses when: the Reshape changes the last axes too, or is used elsewhere; more than one size is not known.
    """,
)

RULES = (PRODUCT, LAST_AXES)
