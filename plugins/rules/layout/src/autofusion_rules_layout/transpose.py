"""Transposes behind Transposes, and Transposes that only move axes of one element."""

from __future__ import annotations

from autofusion.ir.graph import Node, Value
from autofusion.rules import Builder, Match, RewriteRule, Stage, op, permuted, same_shape, var
from autofusion_rules_layout.axes import perm_of
from autofusion_rules_layout.reshape import RESHAPES, reshape_to, target_of


def _both_known(node: Node) -> bool:
    x = node.inputs[0]
    inner = None if x is None else x.producer
    return inner is not None and inner.op == "Transpose" and perm_of(node) is not None and perm_of(inner) is not None


def _merge(match: Match, builder: Builder) -> list[Value]:
    outer, inner = perm_of(match.root), perm_of(match.node("inner"))
    assert outer is not None and inner is not None
    perm = [inner[p] for p in outer]
    if perm == sorted(perm):
        return [match["x"]]
    return [builder.op("Transpose", match["x"], perm=perm, name=match.root.name)]


def _keeps_order(node: Node) -> bool:
    """True if the axes with more than one element stay in order, the new shape can be written down, and it helps.

    Next to another Reshape it does. Elsewhere a Transpose is better left as it is: it can still sink and cancel.
    """
    x, perm = node.inputs[0], perm_of(node)
    if x is None or x.shape is None or perm is None:
        return False
    neighbours = [x.producer, *node.output.consumers]
    if not any(n is not None and n.op in RESHAPES for n in neighbours):
        return False
    moved = [p for p in perm if x.shape[p] != 1]
    return moved == sorted(moved) and target_of(x.shape, permuted(x.shape, perm)) is not None


def _reshape(match: Match, builder: Builder) -> list[Value]:
    x, perm = match["x"], perm_of(match.root)
    assert x.shape is not None and perm is not None
    if same_shape(x.shape, permuted(x.shape, perm)):
        return [x]
    return [reshape_to(x, permuted(x.shape, perm), builder, match.root.name)]


TRANSPOSE_PAIR = RewriteRule(
    "layout.transpose_pair",
    op("Transpose", op("Transpose", var("x"), name="inner", shared=True), where=_both_known),
    _merge,
    stage=Stage.FOLD,
    priority=10,
    doc="""Merge two Transposes, or drop both.

    Before: %y = Transpose(Transpose(%x) {perm = [0, 2, 3, 1]}) {perm = [0, 3, 1, 2]}
    After:  %x
    Where they do not cancel, one Transpose with the product of the permutations is left.
    Refuses when: the rank is not known and a permutation is left out.
    """,
)

TRANSPOSE_AS_RESHAPE = RewriteRule(
    "layout.transpose_as_reshape",
    op("Transpose", var("x"), where=_keeps_order),
    _reshape,
    stage=Stage.FOLD,
    doc="""Write a Transpose that only moves axes of one element as a Reshape, where it can merge with another.

    Before: %y = Squeeze(Transpose(%x) {perm = [0, 2, 3, 1]}, [1, 2])        %x: [N, C, 1, 1]
    After:  %y = Squeeze(Reshape(%x, [0, 1, 1, C]), [1, 2])
    Refuses when: an axis may have more than one element, or the new shape has dims that cannot be stated.
    """,
)

RULES = (TRANSPOSE_PAIR, TRANSPOSE_AS_RESHAPE)
