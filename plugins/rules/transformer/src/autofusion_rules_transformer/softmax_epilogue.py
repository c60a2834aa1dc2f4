"""Softmax with the scale and the mask before it, and the pointwise operators behind it."""

from __future__ import annotations

from collections.abc import Iterator

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.rules import (
    SOFTMAX,
    FuseRule,
    Refusal,
    Region,
    any_broadcast,
    backward,
    forward,
    is_float_type,
    joining,
)


def _softmax(anchor: Node) -> Iterator[Region | Refusal]:
    x, type_ = anchor.inputs[0], anchor.output.type
    if x is None or x.type != type_ or not isinstance(type_, TensorType) or not type_.is_static:
        return
    if not is_float_type(type_.dtype):
        return
    joins = joining(type_, any_broadcast)
    before = backward([x], [anchor], joins)
    behind = forward(anchor, joins).chains
    for chain in (*reversed(behind), ()):
        if before:
            yield Region((*before, anchor, *chain), anchor)
    for chain in reversed(behind):
        yield Region((anchor, *chain), anchor)


SOFTMAX_EPILOGUE = FuseRule(
    "transformer.softmax_epilogue",
    SOFTMAX,
    _softmax,
    frozenset(SOFTMAX.anchors),
    doc="""Run a Softmax with what scales and masks its operand.

    Before: %y = Softmax(Add(Mul(%scores, 0.125), %mask))
    After:  %y = Fused(%scores, %mask) {kind = "softmax"}
    Any pointwise operators before and behind it; the mask may be broadcast along any axis.
    Refuses when: an intermediate is used elsewhere, is a graph output, or has another shape.
    """,
)

RULES = (SOFTMAX_EPILOGUE,)
