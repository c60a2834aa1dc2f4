"""Fold what multiplies or shifts each input channel of a linear layer into its weights and bias."""

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
    arrow,
    axis_vector,
    constant_hint,
    is_float,
    is_parameter,
    not_constant,
    op,
    var,
)
from autofusion_rules_conv.linear import Layer, describe, fitted, input_factor, rebuild, scaled


def _has_parameter(node: Node) -> bool:
    return any(v is not None and is_parameter(v) for v in node.inputs)


def _has_weight(node: Node) -> bool:
    weight = node.operand(1)
    return weight is not None and is_parameter(weight)


def _site(match: Match) -> str:
    return arrow(match.node("before"), match.root)


def _read(match: Match) -> tuple[Layer, np.ndarray] | Refusal:
    """The layer of a match, and the constant before it as a vector over its input channels."""
    layer, before, c = describe(match.root), match.node("before"), match["c"]
    if isinstance(layer, Refusal):
        return layer.at(_site(match))
    if c.const is None:
        return Refusal(f"{_site(match)}: {not_constant(c)}", c, constant_hint(c))
    if before.op in ("Div", "Sub") and before.inputs[1] is not c:
        return Refusal(f"{_site(match)}: the constant '{c.name}' is the first operand", before)
    x = match["x"]
    if not is_float(x) or x.shape is None:
        return Refusal(f"{_site(match)}: the type or rank of '{x.name}' is not known", x)
    rank = len(x.shape)
    if match.root.op in ("Conv", "ConvTranspose"):
        axis = 1
    elif match.root.op == "Gemm" and attribute(match.root, "transA"):
        axis = 0
    else:
        axis = rank - 1
    if not 0 <= axis < rank:
        return Refusal(f"{_site(match)}: '{x.name}' is too small to have channels of its own", x)
    channels = x.shape[axis]
    if not isinstance(channels, int):
        return Refusal(f"{_site(match)}: the number of channels of '{x.name}' is not known", x)
    vector = axis_vector(c.const, rank, axis, channels)
    # One number for each channel, and no more axes than x has: it cannot enlarge x.
    if vector is None or not np.isfinite(vector).all():
        return Refusal(f"{_site(match)}: '{c.name}' is not finite, or not along the channel axis", c)
    return layer, vector


def _scale(match: Match) -> tuple[Layer, np.ndarray] | Refusal:
    read = _read(match)
    if isinstance(read, Refusal) or match.node("before").op == "Mul":
        return read
    layer, vector = read
    if not vector.all():
        return Refusal(f"{_site(match)}: '{match['c'].name}' holds a zero", match["c"])
    return layer, 1.0 / vector


def _rewrite_scale(match: Match, builder: Builder) -> list[Value] | Refusal:
    read = _scale(match)
    if isinstance(read, Refusal):
        return read
    layer, vector = read
    weight = scaled(layer, input_factor(layer, vector))
    if isinstance(weight, Refusal):
        return weight.at(_site(match))
    return [rebuild(layer, weight, None, builder, match["x"])]


def _shift(match: Match) -> tuple[Layer, np.ndarray] | Refusal:
    """The layer, and what the shift adds to its bias."""
    read = _read(match)
    if isinstance(read, Refusal):
        return read
    layer, vector = read
    if layer.node.op == "Conv" and not _unpadded(layer.node):
        return Refusal(
            f"{_site(match)}: the padding of the convolution is not shifted by '{match['c'].name}'",
            match.root,
            f"would fold if the pads of {match.root.label} were 0",
        )
    bias = layer.bias_vector
    if bias is None:
        return Refusal(f"{_site(match)}: the bias is not along the channel axis", layer.bias)
    if match.node("before").op == "Sub":
        vector = -vector
    assert layer.weight.const is not None
    view, numbers = input_factor(layer, vector)
    product = layer.weight.const.reshape(view).astype(np.float64) * numbers
    if layer.node.op == "Conv":
        added = product.reshape(layer.channels, -1).sum(axis=1)
    else:
        added = product.sum(axis=1 if layer.node.op == "Gemm" and attribute(layer.node, "transB") else 0)
        added *= float(attribute(layer.node, "alpha")) if layer.node.op == "Gemm" else 1.0
    return layer, bias + added


def _unpadded(node: Node) -> bool:
    auto = attribute(node, "auto_pad")
    return auto == "VALID" or (auto == "NOTSET" and not any(node.attr("pads") or ()))


def _rewrite_shift(match: Match, builder: Builder) -> list[Value] | Refusal:
    read = _shift(match)
    if isinstance(read, Refusal):
        return read
    layer, vector = read
    bias = fitted(vector, layer.dtype, f"{_site(match)}: the folded bias", match.root)
    if isinstance(bias, Refusal):
        return bias
    return [rebuild(layer, None, bias, builder, match["x"])]


_C = var("c", where=is_parameter)

FOLD_INPUT_SCALE = RewriteRule(
    "conv.fold_input_scale",
    op(
        ("Conv", "ConvTranspose", "Gemm", "MatMul"),
        op(("Mul", "Div"), var("x"), _C, name="before", where=_has_parameter),
        var("weight"),
        open_inputs=True,
        where=_has_weight,
    ),
    _rewrite_scale,
    stage=Stage.FOLD,
    doc="""Multiply the weights instead of the input.

    Before: %y = Conv(Mul(%x, %s), %w, %b)          %s: a number, or one for each input channel
    After:  %y = Conv(%x, %w * %s, %b)
    Also for Div, and before ConvTranspose, Gemm and MatMul. Padding does not matter: zeros stay zeros.
    Refuses when: the product is used elsewhere; a weight or factor is not a constant or may be overridden; the factor
    varies along another axis or enlarges %x; a folded number would not be finite.
    """,
)

FOLD_INPUT_SHIFT = RewriteRule(
    "conv.fold_input_shift",
    op(
        ("Conv", "Gemm"),
        op(("Add", "Sub"), var("x"), _C, name="before", where=_has_parameter),
        var("weight"),
        open_inputs=True,
        where=_has_weight,
    ),
    _rewrite_shift,
    stage=Stage.FOLD,
    doc="""Add the effect of a shifted input to the bias.

    Before: %y = Conv(Add(%x, %t), %w, %b)          no padding; %t: a number, or one for each input channel
    After:  %y = Conv(%x, %w, %b + sum(%w * %t))
    Also for Sub, and before Gemm.
    Refuses when: the convolution pads (its zeros are not shifted); otherwise as conv.fold_input_scale.
    """,
)

RULES = (FOLD_INPUT_SCALE, FOLD_INPUT_SHIFT)
