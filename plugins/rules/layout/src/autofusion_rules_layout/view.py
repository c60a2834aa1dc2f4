"""Move reshapes below pointwise operators, so that these stand next to the layer that made their operand.

Frameworks wrap a one-dimensional convolution into Unsqueeze and Squeeze, and a product of rank three into Reshapes;
the bias and the activation come after. They do the same work in the other shape, and there they can be folded and
fused; the reshape, further down, meets the one before the next layer and merges with it.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, names, op_class
from autofusion.ir.types import Shape
from autofusion.rules import Builder, Match, RewriteRule, Stage, op, same_shape
from autofusion_rules_layout.axes import is_single
from autofusion_rules_layout.reshape import RESHAPES

_ARITHMETIC = (OpClass.CONTRACTION, OpClass.POINTWISE, OpClass.REDUCTION)


def _view(value: Value | None) -> Node | None:
    """The reshape that made the value, if its source has a known shape and comes from arithmetic.

    Behind mere movement (a slice, a graph input) there is nothing to fuse with, and what follows may have its own use
    for the pointwise operator: the scale of an attention, for one.
    """
    node = None if value is None else value.producer
    source = None if node is None or node.op not in RESHAPES else node.inputs[0]
    if source is None or source.shape is None or source.producer is None:
        return None
    return node if op_class(source.producer) in _ARITHMETIC else None


def _source(value: Value) -> Value:
    assert value.producer is not None and value.producer.inputs[0] is not None
    return value.producer.inputs[0]


def _driving(node: Node) -> Value | None:
    """The reshaped operand that has the shape of the result, if only pointwise operators read it."""
    if len(node.outputs) != 1:
        return None
    for value in node.inputs:
        if value is None or _view(value) is None or not same_shape(value.shape, node.output.shape):
            continue
        if not value.is_output and all(op_class(c) is OpClass.POINTWISE for c in value.consumers):
            return value
    return None


def _sunk(node: Node) -> list[Value | np.ndarray | None] | None:
    """The operands of ``node`` in the shape before the reshape; None if one has no such shape."""
    driving = _driving(node)
    if driving is None:
        return None
    before, after = _source(driving).shape, driving.shape
    assert before is not None and after is not None
    operands: list[Value | np.ndarray | None] = []
    for value in node.inputs:
        if value is None:
            operands.append(None)
        elif _view(value) is not None and same_shape(value.shape, after) and same_shape(_source(value).shape, before):
            operands.append(_source(value))
        elif is_single(value) and value.shape is not None and len(value.shape) <= len(before):
            operands.append(value)
        elif value.const is not None and (moved := _reshaped(value.const, before, after)) is not None:
            operands.append(moved)
        else:
            return None
    return operands


def _reshaped(data: np.ndarray, before: Shape, after: Shape) -> np.ndarray | None:
    """A constant that broadcasts to ``after``, so that it broadcasts to ``before`` in the same way."""
    if data.ndim > len(after):
        return None
    full = (1,) * (len(after) - data.ndim) + data.shape
    if [d for d in before if d != 1] == [d for d in after if d != 1] and None not in before:
        # Only axes of one element come and go: the others keep their order.
        kept = iter([n for n, d in zip(full, after, strict=True) if d != 1])
        return data.reshape([1 if d == 1 else next(kept) for d in before])
    if after and before and full[:-1] == (1,) * (len(full) - 1) and before[-1] == after[-1] and before[-1] is not None:
        return data.reshape(full[-1:])  # a vector along the last axis, which stays the last
    return None


def _sink(match: Match, builder: Builder) -> list[Value]:
    node = match.root
    operands, driving = _sunk(node), _driving(node)
    assert operands is not None and driving is not None and driving.producer is not None
    view = driving.producer
    made = [builder.constant(o) if isinstance(o, np.ndarray) else o for o in operands]
    inner = builder.node(node.op, made, node.attrs, name=node.name).output
    return [builder.node(view.op, [inner, *view.inputs[1:]], view.attrs, name=view.name).output]


_POINTWISE = names(lambda schema: schema.op_class is OpClass.POINTWISE)

SINK_VIEW = RewriteRule(
    "layout.sink_view",
    op(_POINTWISE, open_inputs=True, where=lambda node: _sunk(node) is not None),
    _sink,
    stage=Stage.FOLD,
    priority=-11,
    doc="""Move a Reshape, Squeeze, Unsqueeze or Flatten below a pointwise operator.

    Before: %y = Relu(Add(Squeeze(%c, [2]), %bias))       %c: [N, C, 1, W], %bias: [C, 1]
    After:  %y = Squeeze(Relu(Add(%c, %bias')), [2])      %bias': [1, C, 1, 1]
    Every other operand must be a number, a constant that can be laid along the axes before the reshape, or reshaped
    alike.
    Refuses when: the reshaped value does not come from arithmetic, or is read by another kind of operator too; a shape
    is not known.
    """,
)


def _idle_expand(node: Node) -> int | None:
    """The index of an operand whose Expand the operator does by itself, broadcasting."""
    for index, value in enumerate(node.inputs):
        expand = None if value is None else value.producer
        if expand is None or expand.op != "Expand" or expand.inputs[0] is None:
            continue
        others = [v for i, v in enumerate(node.inputs) if i != index and v is not None]
        if any(same_shape(v.shape, node.output.shape) for v in others):
            return index
    return None


def _drop_expand(match: Match, builder: Builder) -> list[Value]:
    node = match.root
    index = _idle_expand(node)
    assert index is not None
    value = node.inputs[index]
    assert value is not None
    operands = [*node.inputs[:index], _source(value), *node.inputs[index + 1 :]]
    return [builder.node(node.op, operands, node.attrs, name=node.name).output]


_BROADCASTING = tuple(n for n in _POINTWISE if n not in ("Clip", "PRelu"))

DROP_EXPAND = RewriteRule(
    "layout.drop_expand",
    op(_BROADCASTING, open_inputs=True, where=lambda node: _idle_expand(node) is not None),
    _drop_expand,
    priority=10,
    doc="""Leave broadcasting to the operator that does it anyway.

    Before: %y = Mul(%x, Expand(%s, %shape))          %x has the shape of %y
    After:  %y = Mul(%x, %s)
    Refuses when: no other operand is known to have the result's shape.
    """,
)

RULES = (SINK_VIEW, DROP_EXPAND)
