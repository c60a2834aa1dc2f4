"""Operators that choose among elements work on quantised numbers as well as on real ones.

Dequantisation by one positive scale grows with its operand, and quantising its results by the same scale gives the
integers back, so a maximum, or a tensor whose elements only move, need not be dequantised.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.rules import Builder, Match, Refusal, RewriteRule, op, var
from autofusion_rules_quantised.scales import SMALL, equal_scales, has_one_scale

_MOVES = (
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
_CHOICES = ("MaxPool",)


def _gives_back(node: Node) -> bool:
    """True if the scale is a positive normal number: integers come back as they were."""
    scale = node.inputs[1]
    if not has_one_scale(node) or scale is None or scale.const is None:
        return False
    number = float(scale.const.reshape(()))
    return float(np.finfo(np.float32).tiny) <= number < 1e30


def _pair(match: Match) -> Refusal | None:
    before, after = match.node("before"), match.root
    if not (_gives_back(before) and has_one_scale(after) and equal_scales(before, after)):
        return Refusal(f"{after.label}: it quantises by another scale than {before.label} dequantises", after)
    return None


def _rewrite_pair(match: Match, builder: Builder) -> Sequence[Value] | Refusal:
    return _pair(match) or [match["x"]]


def _rewrite_through(match: Match, builder: Builder) -> Sequence[Value] | Refusal:
    refusal, node, x = _pair(match), match.node("node"), match["x"]
    if refusal is not None:
        return refusal
    if node.op in _CHOICES and x.dtype not in SMALL:
        return Refusal(f"{node.label}: '{x.name}' is {x.type}, not of 8-bit integers", x)
    if any(v.use_count for v in node.outputs[1:]):
        return Refusal(f"{node.label}: it has a second result that is used", node)
    return [builder.node(node.op, [x, *node.inputs[1:]], dict(node.attrs), name=node.name).output]


_BEFORE = op("DequantizeLinear", var("x"), var("scale"), var("zero", optional=True), name="before", shared=True)
_AFTER = (var("scale_after"), var("zero_after", optional=True))

PAIR = RewriteRule(
    "quantised.cancel",
    op("QuantizeLinear", _BEFORE, *_AFTER),
    _rewrite_pair,
    doc="""Leave out a dequantisation and a quantisation by the same scale.

    Before: %y = QuantizeLinear(DequantizeLinear(%x, 0.5, %z), 0.5, %z)
    After:  %y = %x
    Refuses when: scales, zero points or types differ, or are not constants; there are several scales.
    """,
)
THROUGH = RewriteRule(
    "quantised.through",
    op("QuantizeLinear", op((*_MOVES, *_CHOICES), _BEFORE, name="node", open_inputs=True), *_AFTER),
    _rewrite_through,
    doc="""Move and choose quantised numbers, not real ones.

    Before: %y = QuantizeLinear(MaxPool(DequantizeLinear(%x, 0.5, %z)), 0.5, %z)
    After:  %y = MaxPool(%x)
    Transpose, Reshape, Slice and other movement too.
    Refuses when: as quantised.cancel; a second result is used.
    """,
)

RULES = (PAIR, THROUGH)
