"""Scaled dot-product attention: two products with a Softmax over the keys between them.

    Softmax(Q K^T * scale + mask) V

The scale may stand on the product, on Q or on K, before or behind the mask; the mask may be any pointwise arithmetic
that does not enlarge the scores, and so may what is done to the probabilities (a guard against rows without keys, the
mask of a head). What matters is that the Softmax runs along the last axis, which is the one that the second product
sums over: a Softmax over heads or queries, or over several axes together, is something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.ir.types import TensorType
from autofusion.rules import (
    ATTENTION,
    FuseRule,
    Joins,
    Refusal,
    Region,
    any_broadcast,
    arrow,
    backward,
    forward,
    is_float_type,
    joining,
    normal_axis,
    private_hint,
)
from autofusion_rules_transformer.factors import only_consumer, taken_in


@dataclass(frozen=True, slots=True)
class _Core:
    """The products, the Softmax, and the pointwise nodes before and behind it."""

    first: Node
    masking: tuple[Node, ...]
    softmax: Node
    guarding: tuple[Node, ...]
    second: Node

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of them."""
        return (self.first, *self.masking, self.softmax, *self.guarding, self.second)


def _attention(anchor: Node) -> Iterator[Region | Refusal]:
    type_ = anchor.output.type
    if not isinstance(type_, TensorType) or not type_.is_static or not is_float_type(type_.dtype):
        return
    if len(type_.static_shape) < 2:
        return
    core = _core(anchor, type_)
    if core is None:
        return
    if isinstance(core, Refusal):
        yield core
        return
    rank = len(type_.static_shape)
    if normal_axis(attribute(anchor, "axis"), rank) != rank - 1:
        axis = attribute(anchor, "axis")
        reason = f"{arrow(core.first, anchor, core.second)}: the Softmax runs along axis {axis}, not the last one"
        yield Refusal(reason, anchor, f"would fuse if its axis were {rank - 1}")
        return
    q, k = (taken_in(core.first, index) for index in (0, 1))
    v = taken_in(core.second, 1, scales=False)
    behind = only_consumer(core.second.output)
    merge = (behind,) if behind is not None and behind.op == "Transpose" else ()
    for before, after in (((*q, *k, *v), merge), ((*q, *k, *v), ()), ((*q, *k), ()), (k, ()), ((), ())):
        if (before, after) == ((), ()) or before or after:
            yield Region((*dict.fromkeys(before), *core.nodes, *after), anchor)


def _core(softmax: Node, type_: TensorType) -> _Core | Refusal | None:
    """The attention around a Softmax; None if there is none in sight, and why not if one is near."""
    scores = softmax.inputs[0]
    assert scores is not None
    joins = joining(type_, any_broadcast)
    first = _first(softmax, scores, type_, joins)
    if first is None:
        return None
    product, masking = first
    guards = ((), *forward(softmax, joins).chains)
    for chain in guards:
        value = chain[-1].output if chain else softmax.output
        second = only_consumer(value)
        if second is not None and second.op == "MatMul" and second.inputs[0] is value:
            if second.inputs[1] is value:
                return None
            return _Core(product, masking, softmax, chain, second)
    return _open_end(product, softmax, guards[-1][-1].output if guards[-1] else softmax.output)


def _first(softmax: Node, scores: Value, type_: TensorType, joins: Joins) -> tuple[Node, tuple[Node, ...]] | None:
    """The product of Q and K, and the nodes between it and the Softmax."""
    between = backward([scores], [softmax], joins)
    inside = {softmax, *between}
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
            and not v.is_output
            and not v.escapes(inside)
        )
    )
    return (products[0], tuple(between)) if len(products) == 1 else None


def _open_end(first: Node, softmax: Node, value: Value) -> Refusal | None:
    """Why the probabilities do not go into a product alone, if they go into one at all."""
    products = [c for c in value.consumers if c.op == "MatMul" and c.inputs[0] is value]
    if not products:
        return None
    site = arrow(first, softmax, products[0])
    if value.is_output:
        reason = f"{site}: the probabilities '{value.name}' are also an output of the model"
        return Refusal(reason, value, private_hint(value))
    others = [c for c in value.consumers if c is not products[0]]
    if not others:
        return None
    return Refusal(f"{site}: the probabilities '{value.name}' are also used by {others[0].label}", others[0])


RULE = FuseRule(
    "transformer.attention",
    ATTENTION,
    _attention,
    frozenset(ATTENTION.anchors),
    doc="""Run scaled dot-product attention as one.

    Before: %y = MatMul(Softmax(Add(Mul(MatMul(%q, %k), 0.125), %mask)) {axis = -1}, %v)
    After:  %y = Fused(%q, %k, %mask, %v) {kind = "attention"}
    The scale anywhere; any pointwise operators on the scores and the probabilities that do not enlarge them. Transposes
    of %q, %k, %v and %y are taken in, and keys and values that are repeated for several heads.
    Refuses when: the Softmax does not run along the last axis; an intermediate is used elsewhere or is a graph output.
    """,
)

RULES = (RULE,)
