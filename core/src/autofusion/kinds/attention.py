"""The kind of scaled dot-product attention, and what a body of it says.

moved(guarded(Softmax(masked(Q K^T * factor))) V)
"""

from __future__ import annotations

from dataclasses import dataclass

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.kinds.factors import MOVES, Factor, factor_of
from autofusion.kinds.kind import FusedKind
from autofusion.refusal import Refusal


@dataclass(frozen=True, slots=True, eq=False)
class AttentionParts:
    """A body taken apart; all values are the body's own, and the sources of ``q``, ``k``, ``v`` are inputs of it.

    ``q`` is [..., queries, depth], ``k`` [..., depth, keys] and ``v`` [..., keys, width], once moved. ``scores`` is
    Q K^T, not yet multiplied by ``factor``, the number of Q times that of K. ``masking`` are the nodes that make the
    operand of ``softmax`` of ``scores`` and other operands; ``guarding`` those that make the first operand of
    ``second``, the product with V, of the probabilities and other operands. ``transpose`` moves the axes of that
    product, or is None.
    """

    q: Factor
    k: Factor
    v: Factor
    scores: Value
    masking: tuple[Node, ...]
    softmax: Node
    guarding: tuple[Node, ...]
    second: Node
    transpose: Node | None

    @property
    def factor(self) -> float:
        """What ``scores`` is multiplied by before the masks."""
        return self.q.number * self.k.number


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
        second, transpose = body.outputs[0].producer, None
        if second is not None and second.op == "Transpose" and second.inputs[0] is not None:
            second, transpose = second.inputs[0].producer, second
        behind = _behind(softmax)
        if second is None or second.op != "MatMul" or second.inputs[0] is None:
            return Refusal("the result is not a product of the Softmax and V")
        if second.inputs[0] is not softmax.output and second.inputs[0].producer not in behind:
            return Refusal("the result is not a product of the Softmax and V")
        firsts = [inner for inner in body.nodes if inner.op == "MatMul" and inner is not second]
        if len(firsts) != 1:
            return Refusal(f"expected one product of Q and K, found {len(firsts)}")
        first = firsts[0]
        rank = len(first.output.tensor.static_shape)
        if attribute(softmax, "axis") % rank != rank - 1:
            return Refusal("the Softmax does not run along the keys", softmax)
        inputs = frozenset(body.inputs)
        taken = {first, second, softmax, *(() if transpose is None else (transpose,))}
        values = (first.inputs[0], first.inputs[1], second.inputs[1])
        factors = [factor_of(value, inputs, taken) for value in values if value is not None]
        if len(factors) != 3 or any(factor.source not in inputs for factor in factors):
            return Refusal("Q, K or V is computed inside the node")
        q, k, v = factors
        if v.number != 1.0:
            return Refusal("V is multiplied inside the node")
        rest = [inner for inner in body.nodes if inner not in taken]
        guarding = tuple(inner for inner in rest if inner in behind)
        masking = tuple(inner for inner in rest if inner not in behind)
        return AttentionParts(q, k, v, first.output, masking, softmax, guarding, second, transpose)


def _behind(softmax: Node) -> set[Node]:
    """Every node that depends on the probabilities."""
    found: set[Node] = set()
    queue = [softmax]
    for node in queue:
        for value in node.outputs:
            for consumer in value.consumers:
                if consumer not in found:
                    found.add(consumer)
                    queue.append(consumer)
    return found


ATTENTION = AttentionKind(
    "attention",
    version="1.1",
    anchors=("Softmax",),
    inner=("MatMul", *MOVES),
    body="product of Q and K, scale and mask by pointwise operators, Softmax along the keys, pointwise operators on "
    "the probabilities, product with V; Q, K, V and the result moved",
    operands="Q, K, V in any order of axes, and whatever broadcasts to the scores",
)
