"""Drop operators that change nothing: one rule, one question for each operator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, Refusal, RewriteRule, ints, op, same_shape, var


def _always(node: Node) -> bool:
    return True


def _one_operand(node: Node) -> bool:
    return len(node.inputs) == 1


def _same_type(node: Node) -> bool:
    x = node.inputs[0]
    return x is not None and x.dtype is not None and x.dtype == node.output.dtype


def _keeps_shape(node: Node) -> bool:
    x = node.inputs[0]
    return x is not None and same_shape(x.shape, node.output.shape)


def _identity_perm(node: Node) -> bool:
    x, perm = node.inputs[0], attribute(node, "perm")
    if perm is None:
        return x is not None and x.shape is not None and len(x.shape) < 2
    return list(perm) == list(range(len(perm)))


def _whole_slice(node: Node) -> bool:
    steps = node.operand(4)
    return _keeps_shape(node) and (steps is None or (ints(steps) is not None and set(ints(steps) or ()) <= {1}))


def _no_pads(node: Node) -> bool:
    amounts = ints(node.operand(1))
    return amounts is not None and not any(amounts)


def _one_repeat(node: Node) -> bool:
    repeats = ints(node.operand(1))
    return repeats is not None and set(repeats) <= {1}


def _one_part(node: Node) -> bool:
    return len(node.outputs) == 1 and _keeps_shape(node)


def _same_size(node: Node) -> bool:
    """A Resize by the factor 1, whatever its mode: every sample point then is a pixel."""
    if not _keeps_shape(node) or attribute(node, "coordinate_transformation_mode") == "tf_crop_and_resize":
        return False
    scales, sizes = node.operand(2), node.operand(3)
    if scales is not None and scales.const is not None and scales.const.size:
        return bool(np.all(scales.const == 1))
    return sizes is not None and attribute(node, "keep_aspect_ratio_policy") == "stretch"


_QUESTIONS: dict[str, Callable[[Node], bool]] = {
    "Identity": _always,
    "Cast": _same_type,
    "Transpose": _identity_perm,
    "Reshape": _keeps_shape,
    "Flatten": _keeps_shape,
    "Squeeze": _keeps_shape,
    "Expand": _keeps_shape,
    "Tile": _one_repeat,
    "Slice": _whole_slice,
    "Pad": _no_pads,
    "Resize": _same_size,
    "Split": _one_part,
    "Concat": _one_operand,
    "Max": _one_operand,
    "Mean": _one_operand,
    "Min": _one_operand,
    "Sum": _one_operand,
}


def changes_nothing(node: Node) -> bool:
    """True if the node's result is its first operand, for all inputs."""
    return _QUESTIONS[node.op](node)


def _keep(match: Match, builder: Builder) -> list[Value]:
    return [match["x"]]


def _keep_dropout(match: Match, builder: Builder) -> list[Value | None] | Refusal:
    node = match.root
    training = node.operand(2)
    if training is not None and (training.const is None or bool(training.const.any())):
        return Refusal(f"{node.label} may be in training mode", training)
    if len(node.outputs) > 1 and node.outputs[1].use_count:
        return Refusal(f"{node.label}: its mask '{node.outputs[1].name}' is used", node.outputs[1])
    return [match["x"], *[None] * (len(node.outputs) - 1)]


NO_OP = RewriteRule(
    "layout.no_op",
    op(tuple(_QUESTIONS), var("x"), open_inputs=True, where=changes_nothing),
    _keep,
    priority=20,
    doc="""Drop an operator that changes nothing.

    Before: %y = Identity(%x)
    After:  %x
    Also a Cast to the same type, a Transpose, Reshape, Squeeze, Flatten, Expand, Tile, Slice, Pad, Resize or Split that
    keeps everything where it is, and a Concat, Sum, Mean, Max or Min of one operand.
    Refuses when: it cannot be proved for all inputs, since a dim is not known.
    """,
)

DROPOUT = RewriteRule(
    "layout.dropout",
    op("Dropout", var("x"), open_inputs=True),
    _keep_dropout,
    priority=20,
    doc="""Drop a Dropout at inference.

    Before: %y = Dropout(%x)
    After:  %x
    Refuses when: it may be in training mode; its mask is used.
    """,
)

RULES = (NO_OP, DROPOUT)
