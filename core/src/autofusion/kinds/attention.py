"""The kind of scaled dot-product attention, and what a body of it says: Softmax(masked(Q K^T * factor)) V."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.kinds.kind import FusedKind
from autofusion.refusal import Refusal


@dataclass(frozen=True, slots=True, eq=False)
class AttentionParts:
    """A body taken apart; all values are the body's own, and ``q``, ``k``, ``v`` are inputs of it.

    ``q`` is [..., queries, depth], ``v`` [..., keys, width], and ``k`` [..., depth, keys], or [..., keys, depth] if
    ``k_transposed``. ``scores`` is Q K^T, not yet multiplied by ``factor``. ``masking`` are the nodes that make the
    operand of ``softmax`` of ``scores`` and other operands. ``second`` is the product with V.
    """

    q: Value
    k: Value
    v: Value
    k_transposed: bool
    factor: float
    scores: Value
    masking: tuple[Node, ...]
    softmax: Node
    second: Node


class AttentionKind(FusedKind):
    """The kind, with a reader of its bodies."""

    __slots__ = ()

    def read(self, node: Node) -> AttentionParts | Refusal:
        """The parts of a fused node of this kind, of static shapes, or why its body is not an attention."""
        if not self.is_of(node):
            return Refusal(f"{node.label} is not a fused node of kind '{self.name}'", node)
        body = node.body
        softmax = self.anchor_of(body)
        if isinstance(softmax, Refusal):
            return softmax
        if len(body.outputs) != 1:
            return Refusal(f"expected one result, found {len(body.outputs)}")
        second = body.outputs[0].producer
        if second is None or second.op != "MatMul" or second.inputs[0] is not softmax.output:
            return Refusal("the result is not a product of the Softmax and V")
        firsts = [inner for inner in body.nodes if inner.op == "MatMul" and inner is not second]
        if len(firsts) != 1:
            return Refusal(f"expected one product of Q and K, found {len(firsts)}")
        first = firsts[0]
        rank = len(first.output.tensor.static_shape)
        if attribute(softmax, "axis") % rank != rank - 1:
            return Refusal("the Softmax does not run along the keys", softmax)
        q, k, v = first.inputs[0], first.inputs[1], second.inputs[1]
        assert q is not None and k is not None and v is not None
        inputs = frozenset(body.inputs)
        taken = {first, second, softmax}
        q, q_factor = _unscaled(q, inputs, taken)
        k, k_factor = _unscaled(k, inputs, taken)
        transposed = k not in inputs and k.producer is not None and swaps_last_axes(k.producer)
        if transposed:
            assert k.producer is not None and k.producer.inputs[0] is not None
            taken.add(k.producer)
            k, factor = _unscaled(k.producer.inputs[0], inputs, taken)
            k_factor *= factor
        if any(value not in inputs for value in (q, k, v)):
            return Refusal("Q, K or V is computed inside the node")
        masking = tuple(inner for inner in body.nodes if inner not in taken)
        return AttentionParts(q, k, v, transposed, q_factor * k_factor, first.output, masking, softmax, second)


def scaled(node: Node) -> tuple[Value, float] | None:
    """What ``node`` multiplies or divides by one constant number, and the factor; None for any other node."""
    if node.op not in ("Mul", "Div"):
        return None
    a, b = node.inputs
    if node.op == "Mul" and a is not None and a.const is not None and a.const.size == 1:
        a, b = b, a
    if a is None or b is None or b.const is None or b.const.size != 1 or a.type != node.output.type:
        return None
    number = float(b.const.reshape(()))
    return a, number if node.op == "Mul" else 1 / number if number else math.inf


def swaps_last_axes(node: Node) -> bool:
    """True for a Transpose that swaps the last two axes and leaves the others."""
    perm = attribute(node, "perm") if node.op == "Transpose" else None
    return perm is not None and len(perm) >= 2 and list(perm) == [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2]


def _unscaled(value: Value, inputs: Collection[Value], taken: set[Node]) -> tuple[Value, float]:
    """Follow multiplications by a number back to what they scale; the nodes join ``taken``."""
    factor = 1.0
    while value not in inputs and value.producer is not None:
        found = scaled(value.producer)
        if found is None:
            break
        taken.add(value.producer)
        value, number = found
        factor *= number
    return value, factor


ATTENTION = AttentionKind(
    "attention",
    anchors=("Softmax",),
    inner=("MatMul", "Transpose"),
    body="product of Q and K, scale and mask by pointwise operators, Softmax along the keys, product with V",
    operands="Q, K (either way round), V, and masks that broadcast to the scores",
)
