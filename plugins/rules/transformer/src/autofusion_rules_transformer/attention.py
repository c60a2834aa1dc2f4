"""Scaled dot-product attention: two products with a Softmax over the keys between them.

    Softmax(Q K^T * scale + mask) V

The scale may stand on the product, on Q or on K, before or behind the mask; the mask may be any pointwise arithmetic
that does not enlarge the scores. What matters is that the Softmax runs along the last axis, which is the one that the
second product sums over: a Softmax over heads or queries, or over several axes together, is something else.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.ir.types import TensorType
from autofusion.rules import (
    ATTENTION,
    FuseRule,
    Refusal,
    Region,
    any_broadcast,
    arrow,
    backward,
    is_float_type,
    joining,
    normal_axis,
    scaled,
    swaps_last_axes,
)


def _attention(anchor: Node) -> Iterator[Region | Refusal]:
    scores, type_ = anchor.inputs[0], anchor.output.type
    if scores is None or not isinstance(type_, TensorType) or not type_.is_static or not is_float_type(type_.dtype):
        return
    second = _only_consumer(anchor.output)
    if second is None or second.op != "MatMul" or second.inputs[0] is not anchor.output or len(type_.static_shape) < 2:
        return
    if second.inputs[1] is anchor.output:
        return
    between = backward([scores], [anchor], joining(type_, any_broadcast))
    inside = {anchor, *between}
    products = list(
        dict.fromkeys(
            v.producer
            for node in inside
            for v in node.inputs
            if v is not None
            and v.producer is not None
            and v.producer not in inside
            and v.producer.op == "MatMul"
            and v.type == type_
            and _only_consumer(v) is not None
        )
    )
    if len(products) != 1:
        return
    first = products[0]
    rank = len(type_.static_shape)
    if normal_axis(attribute(anchor, "axis"), rank) != rank - 1:
        axis = attribute(anchor, "axis")
        reason = f"{arrow(first, anchor, second)}: the Softmax runs along axis {axis}, not the last one"
        yield Refusal(reason, anchor, f"would fuse if its axis were {rank - 1}")
        return
    core = (first, *between, anchor, second)
    before = _scales(first)
    transpose = _key_transpose(first, before)
    if transpose is not None:
        yield Region((*transpose, *(n for n in before if n not in transpose), *core), anchor)
    if before:
        yield Region((*before, *core), anchor)
    yield Region(core, anchor)


def _only_consumer(value: Value) -> Node | None:
    return value.consumers[0] if len(value.consumers) == 1 and not value.is_output else None


def _scales(product: Node) -> list[Node]:
    """Multiplications of Q or K by a number, which only this product reads."""
    found = []
    for value in product.inputs:
        node = None if value is None else value.producer
        if node is not None and value is not None and scaled(node) and _only_consumer(value) is product:
            found.append(node)
    return found


def _key_transpose(product: Node, scales: list[Node]) -> tuple[Node, ...] | None:
    """The Transpose of the last two axes that makes K^T of K, if only this attention reads it."""
    value = product.inputs[1]
    node = None if value is None else value.producer
    reader = product
    if node is not None and node in scales:
        reader = node
        value = next(v for v in node.inputs if v is not None and v.const is None)
        node = value.producer
    if node is None or value is None or not swaps_last_axes(node) or _only_consumer(value) is not reader:
        return None
    return (node,)


RULE = FuseRule(
    "transformer.attention",
    ATTENTION,
    _attention,
    frozenset(ATTENTION.anchors),
    doc="""Run scaled dot-product attention as one.

    Before: %y = MatMul(Softmax(Add(Mul(MatMul(%q, %k), 0.125), %mask)) {axis = -1}, %v)
    After:  %y = Fused(%q, %k, %mask, %v) {kind = "attention"}
    The scale anywhere; any mask that does not enlarge the scores; the Transpose of %k is taken in where it only swaps
    the last two axes.
    Refuses when: the Softmax does not run along the last axis; an intermediate is used elsewhere or is a graph output.
    """,
)

RULES = (RULE,)
