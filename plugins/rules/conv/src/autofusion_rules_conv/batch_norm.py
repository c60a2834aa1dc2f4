"""BatchNormalization at inference: into the layer before it, or else into one Mul and one Add."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import (
    Builder,
    Match,
    Refusal,
    RewriteRule,
    Stage,
    constant_hint,
    is_float,
    not_constant,
    op,
    spread,
    var,
)
from autofusion_rules_conv.fold_affine import Affine, rewrite_with
from autofusion_rules_conv.linear import Layer, biased_layer, fitted

_STATISTICS = (var("scale"), var("shift"), var("mean"), var("variance"))


def statistics(node: Node) -> tuple[np.ndarray, np.ndarray] | Refusal:
    """``(scale, shift)`` for each channel, in double precision, of a BatchNormalization that does not train. They need
    not be finite.
    """
    if attribute(node, "training_mode"):
        return Refusal(
            f"{node.label} is in training mode: it normalises with the statistics of the batch",
            node,
            "would fold if the model were exported for inference (training_mode=0)",
        )
    if len(node.outputs) > 1 and any(v.use_count for v in node.outputs[1:]):
        return Refusal(f"{node.label}: its running statistics are used", node)
    arrays = []
    for value in node.inputs[1:5]:
        if value is None or value.const is None:
            reason = not_constant(value) if value else "an operand is absent"
            return Refusal(f"{node.label}: {reason}", value or node, constant_hint(value) if value else "")
        arrays.append(value.const.astype(np.float64))
    gamma, beta, mean, variance = arrays
    scale = gamma / np.sqrt(variance + float(attribute(node, "epsilon")))
    return scale, beta - mean * scale


def _affine_of_layer(match: Match, layer: Layer) -> Affine | Refusal:
    affine = statistics(match.root)
    if isinstance(affine, Refusal):
        return affine
    if layer.axis != 1 or layer.channels != len(affine[0]):
        return Refusal(f"it normalises axis 1, the product's columns are axis {layer.axis}", match.root)
    return affine


_folded = rewrite_with(_affine_of_layer)


def _rewrite_fold(match: Match, builder: Builder) -> list[Value] | Refusal:
    results = _folded(match, builder)
    return results if isinstance(results, Refusal) else _padded(match, results)


def _padded(match: Match, results: list[Value]) -> list[Value]:
    """One value for each result of the root; the unused running statistics do not change at inference."""
    running = [v for v in match.root.inputs[3:5] if v is not None]
    return results + running[: len(match.root.outputs) - 1]


def _rewrite_affine(match: Match, builder: Builder) -> list[Value] | Refusal:
    node = match.root
    affine = statistics(node)
    if isinstance(affine, Refusal):
        return affine
    x = match["x"]
    if x.shape is None or len(x.shape) < 2:
        return Refusal(f"{node.label}: the rank of '{x.name}' is not known, or too small", x)
    if not is_float(x) or x.dtype is None:
        return Refusal(f"{node.label}: '{x.name}' is not of a floating-point type", x)
    scale = fitted(affine[0], x.dtype, f"{node.label}: its scale", node)
    if isinstance(scale, Refusal):
        return scale
    shift = fitted(affine[1], x.dtype, f"{node.label}: its shift", node)
    if isinstance(shift, Refusal):
        return shift
    factor = builder.constant(spread(scale, len(x.shape), 1), name=f"{node.name}.scale")
    added = builder.constant(spread(shift, len(x.shape), 1), name=f"{node.name}.shift")
    product = builder.op("Mul", x, factor, name=node.name)
    return _padded(match, [builder.op("Add", product, added, name=node.name)])


FOLD_BATCH_NORM = RewriteRule(
    "conv.fold_batch_norm",
    op("BatchNormalization", biased_layer(), *_STATISTICS),
    _rewrite_fold,
    stage=Stage.FOLD,
    doc="""Fold a BatchNormalization into the weights and bias of the layer before it.

    Before: %y = BatchNormalization(Conv(%x, %w, %b), %gamma, %beta, %mean, %var)
    After:  %y = Conv(%x, %w * a, (%b - %mean) * a + %beta)      a = gamma / sqrt(var + epsilon)
    Also after ConvTranspose (per group), and after a Gemm or MatMul whose result is a matrix.
    Refuses when: it trains; the layer's result is used elsewhere; a weight or statistic is not a constant or may be
    overridden; a folded number would not be finite.
    """,
)

BATCH_NORM_AFFINE = RewriteRule(
    "conv.batch_norm_affine",
    op("BatchNormalization", var("x"), *_STATISTICS),
    _rewrite_affine,
    stage=Stage.FOLD,
    priority=-10,
    doc="""Write a BatchNormalization that no layer could take as pointwise arithmetic.

    Before: %y = BatchNormalization(%x, %gamma, %beta, %mean, %var)
    After:  %y = Add(Mul(%x, a), %beta - %mean * a)              a = gamma / sqrt(var + epsilon), shaped [C, 1, 1]
    Refuses when: it trains; a statistic is not a constant or may be overridden; the rank of %x is not known.
    """,
)

RULES = (FOLD_BATCH_NORM, BATCH_NORM_AFFINE)
