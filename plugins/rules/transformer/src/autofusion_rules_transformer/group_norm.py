"""GroupNormalization from the normalisation of instances that exporters write it as."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, Refusal, RewriteRule, is_float, op, same_dim, same_shape, var

_VIEWS = ("Reshape",)


def _in_groups(node: Node) -> bool:
    """True for a value whose channels were put into groups, normalised, and brought back."""
    norm = None if node.inputs[0] is None else node.inputs[0].producer
    grouped = None if norm is None or norm.op != "InstanceNormalization" else norm.inputs[0]
    view = None if grouped is None else grouped.producer
    if norm is None or grouped is None or view is None or view.op not in _VIEWS or view.inputs[0] is None:
        return False
    x, cut = view.inputs[0].shape, grouped.shape
    if x is None or cut is None or len(x) < 3 or len(cut) != 3 or not same_shape(x, node.output.shape):
        return False
    channels, groups = x[1], cut[1]
    if not isinstance(channels, int) or not isinstance(groups, int) or groups < 1 or channels % groups:
        return False
    return same_dim(x[0], cut[0])


def _parameters(match: Match) -> tuple[np.ndarray, np.ndarray] | Refusal:
    """Scale and shift for each channel."""
    norm, x = match.node("norm"), match["x"]
    assert x.shape is not None and isinstance(x.shape[1], int)
    found = []
    for value in norm.inputs[1:]:
        if value is None or value.const is None:
            return Refusal(f"{norm.label}: its scale or shift is computed at run time", norm)
        found.append(np.repeat(value.const, x.shape[1] // value.const.size))
    return found[0], found[1]


def _group_norm(match: Match, builder: Builder) -> list[Value] | Refusal:
    norm, x, found = match.node("norm"), match["x"], _parameters(match)
    if isinstance(found, Refusal):
        return found
    assert norm.inputs[0] is not None and norm.inputs[0].shape is not None
    scale, shift = (builder.constant(data, name=name) for data, name in zip(found, ("scale", "shift"), strict=True))
    attrs = {"num_groups": norm.inputs[0].shape[1], "epsilon": attribute(norm, "epsilon")}
    return [builder.node("GroupNormalization", [x, scale, shift], attrs, name=norm.name).output]


GROUP_NORM = RewriteRule(
    "transformer.group_norm",
    op(
        _VIEWS,
        op(
            "InstanceNormalization",
            op(_VIEWS, var("x", where=is_float), open_inputs=True, shared=True),
            open_inputs=True,
            name="norm",
        ),
        open_inputs=True,
        where=_in_groups,
    ),
    _group_norm,
    doc="""Recognise GroupNormalization.

    Before: %y = Reshape(InstanceNormalization(Reshape(%x, [0, 8, -1]), ones, zeros), [2, 32, 7, 9])
    After:  %y = GroupNormalization(%x, ones, zeros) {num_groups = 8}          %x: [2, 32, 7, 9]
    Scale and shift behind it are taken in by the fused kernel.
    Refuses when: the parameters are computed; the normalised value is used elsewhere.
    """,
)

RULES = (GROUP_NORM,)
