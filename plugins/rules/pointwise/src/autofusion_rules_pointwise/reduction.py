"""Reductions with the pointwise operators before and behind them."""

from __future__ import annotations

from collections.abc import Iterator

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.rules import REDUCTION, FuseRule, Refusal, Region, backward, forward, is_float_type
from autofusion_rules_pointwise.region import of_shape


def _reduction(anchor: Node) -> Iterator[Region | Refusal]:
    x, y = anchor.inputs[0], anchor.output
    if x is None or not _static_float(x.type):
        return
    before = backward([x], [anchor], of_shape(x.shape))
    behind = forward(anchor, of_shape(y.shape)).chains if _static_float(y.type) else ()
    if before:
        for chain in reversed(behind):
            yield Region((*before, anchor, *chain), anchor)
        yield Region((*before, anchor), anchor)
    for chain in reversed(behind):
        yield Region((anchor, *chain), anchor)


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
    Before it, what has the shape of its operand; behind it, what has the shape of its result.
    Refuses when: an intermediate is used elsewhere or is a graph output.
    """,
)

RULES = (RULE,)
