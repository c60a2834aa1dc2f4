"""Fold what multiplies or shifts each output channel of a linear layer into its weights and bias.

Whatever a framework calls normalisation at inference (BatchNormalization, ``x * s + t``, Rsqrt/Mul/Sub/AddV2 chains
after constant folding) is such an affine map, so these rules are about arithmetic and not about layers.
"""

from __future__ import annotations

import numpy as np

from autofusion.fusion.facts import arrow, axis_vector, is_parameter, not_constant
from autofusion.fusion.pattern import Match, op, var
from autofusion.fusion.rule import Builder, Refusal, RewriteRule, Stage
from autofusion.ir.graph import Node, Value
from autofusion_rules_conv.linear import (
    LINEAR,
    Layer,
    biased_layer,
    describe,
    layer,
    output_factor,
    overflow,
    rebuild,
    scaled,
    unfit,
)


def read_layer(match: Match) -> Layer | Refusal:
    """The linear layer of a match, with the Add behind a MatMul as its bias."""
    found = describe(match.node("layer"), match.get("bias"))
    if isinstance(found, Refusal):
        return Refusal(f"{arrow(match.node('layer'), match.root)}: {found.reason}", found.culprit)
    return found


def check_affine(match: Match, scale: np.ndarray | None, shift: np.ndarray | None) -> Refusal | None:
    """May ``layer * scale + shift`` be folded? Both are vectors over the output channels, None where there is none."""
    found = read_layer(match)
    if isinstance(found, Refusal):
        return found
    bias = found.bias_vector
    site = arrow(found.node, match.root)
    if bias is None:
        name = found.bias.name if found.bias else "?"
        return Refusal(f"{site}: the bias '{name}' is not along the channel axis", found.bias)
    for vector, name in ((scale, "scale"), (shift, "shift")):
        if vector is not None and not np.isfinite(vector).all():
            return Refusal(f"{site}: its {name} is not finite", match.root)
    if scale is not None:
        refusal = overflow(found, output_factor(found, scale))
        if refusal is not None:
            return Refusal(f"{site}: {refusal.reason}", refusal.culprit)
    return unfit(folded_bias(bias, scale, shift), found.dtype, f"{site}: the folded bias", match.root)


def folded_bias(bias: np.ndarray, scale: np.ndarray | None, shift: np.ndarray | None) -> np.ndarray:
    """``bias * scale + shift``."""
    result = bias if scale is None else bias * scale
    return result if shift is None else result + shift


def rewrite_affine(match: Match, builder: Builder, scale: np.ndarray | None, shift: np.ndarray | None) -> list[Value]:
    """The layer with the affine map in its weights and bias."""
    found = read_layer(match)
    assert isinstance(found, Layer)
    bias = found.bias_vector
    assert bias is not None
    weight = None if scale is None else scaled(found, output_factor(found, scale))
    return [rebuild(found, weight, folded_bias(bias, scale, shift), builder)]


def _operand(match: Match) -> np.ndarray | Refusal:
    """The constant of the match as a vector over the output channels."""
    value, found = match["c"], read_layer(match)
    if isinstance(found, Refusal):
        return found
    site = arrow(found.node, match.root)
    if value.const is None:
        return Refusal(f"{site}: {not_constant(value)}", value)
    vector = axis_vector(value.const, found.rank, found.axis, found.channels)
    if vector is None:
        return Refusal(
            f"{site}: constant '{value.name}' {list(value.const.shape)} is not along the channel axis "
            f"({found.channels} channels on axis {found.axis} of {found.rank})",
            value,
        )
    return vector


def _affine(match: Match) -> tuple[np.ndarray | None, np.ndarray | None] | Refusal:
    """What the root does to the layer's result, as scale and shift."""
    vector = _operand(match)
    if isinstance(vector, Refusal):
        return vector
    root = match.root
    if root.op == "Mul":
        return vector, None
    if root.op == "Div":
        if not vector.all():
            return Refusal(f"{arrow(match.node('layer'), root)}: '{match['c'].name}' holds a zero", match["c"])
        return 1.0 / vector, None
    if root.op == "Add":
        return None, vector
    if root.inputs[0] is match["c"]:
        return np.full(vector.shape, -1.0), vector
    return None, -vector


def _check(match: Match) -> Refusal | None:
    affine = _affine(match)
    return affine if isinstance(affine, Refusal) else check_affine(match, *affine)


def _rewrite(match: Match, builder: Builder) -> list[Value]:
    affine = _affine(match)
    assert not isinstance(affine, Refusal)
    return rewrite_affine(match, builder, *affine)


_C = var("c", where=is_parameter)


def _folds(node: Node) -> bool:
    """True if one operand is a parameter and the other comes from a layer, or from the bias of a product."""
    return any(v is not None and is_parameter(v) for v in node.inputs) and any(
        v is not None and v.producer is not None and (v.producer.op in LINEAR or _is_bias(v.producer))
        for v in node.inputs
    )


def _is_bias(node: Node) -> bool:
    return node.op == "Add" and any(
        v is not None and v.producer is not None and v.producer.op == "MatMul" for v in node.inputs
    )


FOLD_SCALE = RewriteRule(
    "conv.fold_scale",
    op(("Mul", "Div"), biased_layer(), _C, where=_folds),
    _rewrite,
    _check,
    Stage.FOLD,
    doc="""Multiply the weights instead of the result.

    Before: %y = Mul(Conv(%x, %w, %b), %s)          %s: a number, or one for each output channel
    After:  %y = Conv(%x, %w * %s, %b * %s)
    Also for Div, and after ConvTranspose, Gemm, and MatMul with or without its bias.
    Refuses when: the layer's result is used elsewhere; a weight, bias or factor is no constant or may be overridden;
    the factor varies along another axis or enlarges the result; a folded number would not be finite.
    """,
)

FOLD_BIAS = RewriteRule(
    "conv.fold_bias",
    op(("Add", "Sub"), layer(), _C, where=_folds),
    _rewrite,
    _check,
    Stage.FOLD,
    doc="""Add to the bias instead of to the result.

    Before: %y = Add(Conv(%x, %w, %b), %t)          %t: a number, or one for each output channel
    After:  %y = Conv(%x, %w, %b + %t)
    Also for Sub, and after ConvTranspose and Gemm.
    Refuses when: as conv.fold_scale.
    """,
)

FOLD_SECOND_BIAS = RewriteRule(
    "conv.fold_second_bias",
    op(
        ("Add", "Sub"),
        op("Add", op("MatMul", name="layer", open_inputs=True), var("bias", where=is_parameter)),
        _C,
        where=_folds,
    ),
    _rewrite,
    _check,
    Stage.FOLD,
    doc="""Add two biases of a MatMul before they are needed.

    Before: %y = Add(Add(MatMul(%x, %w), %b), %t)   %b, %t: a number, or one for each output column
    After:  %y = Add(MatMul(%x, %w), %b + %t)
    Refuses when: as conv.fold_scale.
    """,
)

FOLD_DIFFERENCE = RewriteRule(
    "conv.fold_difference",
    op("Sub", _C, layer(), where=_folds),
    _rewrite,
    _check,
    Stage.FOLD,
    doc="""Negate the weights where the result is subtracted from a constant.

    Before: %y = Sub(%t, Conv(%x, %w, %b))          %t: a number, or one for each output channel
    After:  %y = Conv(%x, -%w, %t - %b)
    Refuses when: as conv.fold_scale.
    """,
)

RULES = (FOLD_SCALE, FOLD_BIAS, FOLD_SECOND_BIAS, FOLD_DIFFERENCE)
