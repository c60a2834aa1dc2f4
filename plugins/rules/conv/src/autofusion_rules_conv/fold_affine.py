"""Fold what multiplies or shifts each output channel of a linear layer into its weights and bias.

Whatever a framework calls normalisation at inference (BatchNormalization, ``x * s + t``, Rsqrt/Mul/Sub/AddV2 chains
after constant folding) is such an affine map, so these rules are about arithmetic and not about layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.rules import (
    Builder,
    Match,
    Refusal,
    RewriteRule,
    Stage,
    arrow,
    axis_vector,
    constant_hint,
    is_parameter,
    not_constant,
    op,
    var,
)
from autofusion_rules_conv.linear import (
    LINEAR,
    Layer,
    biased_layer,
    describe,
    fitted,
    layer,
    output_factor,
    rebuild,
    scaled,
)


@dataclass(frozen=True, slots=True)
class Fold:
    """What is to be done: give the layer this weight (None: leave it) and this bias."""

    layer: Layer
    weight: np.ndarray | None
    bias: np.ndarray


Affine = tuple[np.ndarray | None, np.ndarray | None]
"""Scale and shift, vectors over the output channels; None where there is none."""


def plan(match: Match, affine_of: Callable[[Match, Layer], Affine | Refusal]) -> Fold | Refusal:
    """What folding ``layer * scale + shift`` takes, or why it may not be done. ``affine_of`` reads scale and shift."""
    layer = describe(match.node("layer"), match.get("bias"))
    if isinstance(layer, Refusal):
        return layer
    affine = affine_of(match, layer)
    if isinstance(affine, Refusal):
        return affine
    bias = layer.bias_vector
    if bias is None:
        name = layer.bias.name if layer.bias else "?"
        return Refusal(f"the bias '{name}' is not along the channel axis", layer.bias)
    scale, shift = affine
    weight = None
    if scale is not None:
        weight = scaled(layer, output_factor(layer, scale))
        bias = bias * scale
    if shift is not None:
        bias = bias + shift
    rounded = fitted(bias, layer.dtype, "the folded bias", match.root)
    if isinstance(weight, Refusal):
        return _not_finite(match.root, affine) or weight
    if isinstance(rounded, Refusal):
        return _not_finite(match.root, affine) or rounded
    return Fold(layer, weight, rounded)


def _not_finite(root: Node, affine: Affine) -> Refusal | None:
    for vector, name in zip(affine, ("scale", "shift"), strict=True):
        if vector is not None and not np.isfinite(vector).all():
            return Refusal(f"its {name} is not finite", root)
    return None


def rewrite_with(
    affine_of: Callable[[Match, Layer], Affine | Refusal],
) -> Callable[[Match, Builder], list[Value] | Refusal]:
    """A rule's ``rewrite``: the layer with the affine map in its weights and bias."""

    def rewrite(match: Match, builder: Builder) -> list[Value] | Refusal:
        fold = plan(match, affine_of)
        if isinstance(fold, Refusal):
            return fold.at(arrow(match.node("layer"), match.root))
        return [rebuild(fold.layer, fold.weight, fold.bias, builder)]

    return rewrite


def _affine(match: Match, layer: Layer) -> Affine | Refusal:
    """What the root does to the layer's result."""
    root, value = match.root, match["c"]
    if value.const is None:
        return Refusal(not_constant(value), value, constant_hint(value))
    vector = axis_vector(value.const, layer.rank, layer.axis, layer.channels)
    if vector is None:
        return Refusal(
            f"constant '{value.name}' {list(value.const.shape)} is not along the channel axis "
            f"({layer.channels} channels on axis {layer.axis} of {layer.rank})",
            value,
            f"would fold if '{value.name}' had one element, or {layer.channels} along axis {layer.axis}",
        )
    if root.op == "Mul":
        return vector, None
    if root.op == "Div":
        return (1.0 / vector, None) if vector.all() else Refusal(f"'{value.name}' holds a zero", value)
    if root.op == "Add":
        return None, vector
    if root.inputs[0] is value:
        return np.full(vector.shape, -1.0), vector
    return None, -vector


_rewrite = rewrite_with(_affine)
_C = var("c", where=is_parameter)


def _folds(node: Node) -> bool:
    """True if one operand is a parameter and the other comes from a layer, or from the bias of a product."""
    made = [v.producer for v in node.inputs if v is not None and v.producer is not None]
    if not any(_is_layer(producer) or _is_bias(producer) for producer in made):
        return False
    return any(v is not None and is_parameter(v) for v in node.inputs)


def _is_layer(node: Node) -> bool:
    """False for a product of two computed values too: it has no weight, and nothing is there to tell."""
    if node.op not in LINEAR:
        return False
    weight = node.operand(1)
    return node.op != "MatMul" or (weight is not None and (weight.const is not None or weight.default is not None))


def _is_bias(node: Node) -> bool:
    return node.op == "Add" and any(
        v is not None and v.producer is not None and v.producer.op == "MatMul" and _is_layer(v.producer)
        for v in node.inputs
    )


FOLD_SCALE = RewriteRule(
    "conv.fold_scale",
    op(("Mul", "Div"), biased_layer(), _C, where=_folds),
    _rewrite,
    stage=Stage.FOLD,
    doc="""Multiply the weights instead of the result.

    Before: %y = Mul(Conv(%x, %w, %b), %s)          %s: a number, or one for each output channel
    After:  %y = Conv(%x, %w * %s, %b * %s)
    Also for Div, and after ConvTranspose, Gemm, and MatMul with or without its bias.
    Refuses when: the layer's result is used elsewhere; a weight, bias or factor is not a constant or may be overridden;
    the factor varies along another axis or enlarges the result; a folded number would not be finite.
    """,
)

FOLD_BIAS = RewriteRule(
    "conv.fold_bias",
    op(("Add", "Sub"), layer(), _C, where=_folds),
    _rewrite,
    stage=Stage.FOLD,
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
    stage=Stage.FOLD,
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
    stage=Stage.FOLD,
    doc="""Negate the weights where the result is subtracted from a constant.

    Before: %y = Sub(%t, Conv(%x, %w, %b))          %t: a number, or one for each output channel
    After:  %y = Conv(%x, -%w, %t - %b)
    Refuses when: as conv.fold_scale.
    """,
)

RULES = (FOLD_SCALE, FOLD_BIAS, FOLD_SECOND_BIAS, FOLD_DIFFERENCE)
