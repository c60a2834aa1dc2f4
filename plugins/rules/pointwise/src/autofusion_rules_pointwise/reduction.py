"""Reductions with the pointwise operators before and behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autofusion.ir.graph import Node, Value
from autofusion.ir.types import TensorType
from autofusion.rules import REDUCTION, FuseRule, Refusal, Region, backward, forward, is_float_type
from autofusion_rules_pointwise.region import of_shape


def _reduction(anchor: Node) -> Iterator[Region | Refusal]:
    x, y = anchor.inputs[0], anchor.output
    if x is None or not _static_float(x.type):
        return
    own = of_shape(x.shape)
    behind = forward(anchor, of_shape(y.shape)).chains if _static_float(y.type) else ()
    for chain in reversed(_spread(anchor, y, own)):
        # What is read again behind the reduction may be made before it, where nobody else needs it.
        inside = (anchor, *chain)
        before = backward([x, *(v for node in chain for v in node.inputs)], inside, own)
        if before:
            yield Region((*before, *inside), anchor)
        yield Region(inside, anchor)
    before = backward([x], [anchor], own)
    if before:
        for chain in reversed(behind):
            yield Region((*before, anchor, *chain), anchor)
        yield Region((*before, anchor), anchor)
    for chain in reversed(behind):
        yield Region((anchor, *chain), anchor)


def _spread(anchor: Node, y: Value, own: Callable[[Node], bool]) -> list[tuple[Node, ...]]:
    """What follows the reduction up to nodes of its operand's shape, which read the reduced values."""
    x = anchor.inputs[0]
    assert x is not None
    if not _static_float(y.type) or y.shape is None or x.shape is None or len(y.shape) != len(x.shape):
        return []
    if y.shape == x.shape or anchor.op.startswith("Arg"):
        return []
    rows = of_shape(y.shape)
    chains = forward(anchor, lambda node: rows(node) or own(node)).chains
    return [chain for chain in chains if chain[-1].output.shape == x.shape]


def _static_float(type_: object) -> bool:
    return isinstance(type_, TensorType) and type_.is_static and is_float_type(type_.dtype)


RULE = FuseRule(
    "pointwise.reduction",
    REDUCTION,
    _reduction,
    frozenset(REDUCTION.anchors),
    doc="""Run a reduction with the pointwise operators around it.

    Before: %y = Sqrt(ReduceMean(Mul(%x, %x), [-1]))
    After:  %y = Fused(%x) {kind = "reduction"}
    Before it, what has the shape of its operand; behind it, what has the shape of its result, and then what has the
    operand's shape again: Div(%x, ReduceL2(%x, [-1])).
    Refuses when: an intermediate is used elsewhere or is a graph output.
    """,
)

RULES = (RULE,)
