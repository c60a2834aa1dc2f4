"""LayerNormalization and RMSNormalization from their pieces; scale and shift are taken in afterwards.

What looks alike is not always one: the mean must be kept as an axis (without ``keepdims`` it may be subtracted along
another axis), the axes must be the last ones, and mean and variance must be taken over the same ones.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import (
    Builder,
    Either,
    Match,
    Operand,
    Refusal,
    RewriteRule,
    const,
    either,
    ints,
    normal_axis,
    op,
    same_shape,
    var,
)

_DTYPES = frozenset({"float32", "float16", "bfloat16"})
"""The statistics of the normalisation operators are single precision: no recomposition for double."""

_X = var("x", where=lambda value: value.dtype is not None and value.dtype.name in _DTYPES)


def _size_one(data: np.ndarray) -> bool:
    return data.size == 1


def _square(x: Operand) -> Operand:
    return either(op("Mul", x, x), op("Pow", x, const("two", 2.0)))


def _shifted(variance: Operand) -> Operand:
    """``variance + epsilon``."""
    return op("Add", variance, const("epsilon", where=_size_one), name="shifted")


def _inverse_root(shifted: Operand) -> Operand:
    """``1 / sqrt(shifted)``."""
    root = op("Sqrt", shifted)
    return either(
        op("Reciprocal", root),
        op("Div", const("one", 1.0), root),
        op("Sqrt", op("Reciprocal", shifted)),
        op("Pow", shifted, const("minus_half", -0.5)),
    )


def _normalised(x: Operand, shifted: Operand) -> Either:
    """``x / sqrt(shifted)``, times ``gamma`` before or behind the root in some spellings."""
    inverse, root = _inverse_root(shifted), either(op("Sqrt", shifted), op("Pow", shifted, _ROOT))
    gamma = var("gamma")
    return either(
        op("Div", x, root, where=_over_root_of_mean),
        op("Mul", x, inverse, where=_over_root_of_mean),
        op("Mul", x, op("Mul", inverse, gamma), where=_over_root_of_mean),
        op("Mul", x, op("Div", gamma, root), where=_over_root_of_mean),
        op("Mul", op("Mul", x, gamma), inverse, where=_over_root_of_mean),
        op("Div", op("Mul", x, gamma), root, where=_over_root_of_mean),
    )


def _over_root_of_mean(node: Node) -> bool:
    """True if an operand is made of the root of a mean plus something: anything less is no near-miss either."""
    return any(v is not None and _is_root_of_mean(v) for v in node.inputs)


def _is_root_of_mean(value: Value) -> bool:
    for _ in range(4):
        node = value.producer
        if node is None:
            return False
        if node.op == "Add":
            return any(v is not None and v.producer is not None and _is_mean(v.producer) for v in node.inputs)
        if node.op == "Mul" or (node.op == "Div" and node.inputs[0] is not None and node.inputs[0].const is None):
            # The scale, multiplied with the inverse of the root.
            roots = [v for v in node.inputs if v is not None and v.producer is not None and v.producer.op in _ROOTS]
            if len(roots) != 1:
                return False
            value = roots[0]
            continue
        computed = [v for v in node.inputs if v is not None and v.const is None]
        if node.op not in _ROOTS or len(computed) != 1:
            return False
        value = computed[0]
    return False


_ROOTS = ("Div", "Pow", "Reciprocal", "Sqrt")


def _is_mean(node: Node) -> bool:
    """True for a mean, and for a difference of means, which may have been kept from being negative."""
    if node.op in ("Max", "Relu", "Sub"):
        return any(v is not None and v.producer is not None and _is_mean(v.producer) for v in node.inputs)
    return node.op == "ReduceMean"


_ROOT = const("half", 0.5)

# ---- for both operators --------------------------------------------------------------------------------------------


def _trailing_axes(node: Node, x: Value) -> int | Refusal:
    """The first of the axes that ``node`` reduces, if they are the last ones of ``x`` and are kept with size one."""
    if x.shape is None:
        return Refusal(f"{node.label}: the rank of '{x.name}' is not known", x)
    rank, axes_value = len(x.shape), node.operand(1)
    axes = ints(axes_value)
    if not axes:
        return Refusal(f"{node.label}: its axes are not constant, or all", node)
    normal = sorted(normal_axis(a, rank) for a in axes)
    if normal != list(range(normal[0], rank)):
        reason = f"{node.label}: it reduces axes {normal} of {rank}, which are not the last ones"
        return Refusal(reason, node, f"would apply if it reduced axes {list(range(rank - len(normal), rank))}")
    if not attribute(node, "keepdims"):
        reason = f"{node.label}: keepdims is 0, so that its result lines up with other axes"
        return Refusal(reason, node, "would apply if keepdims were 1")
    return normal[0]


def _epsilon(match: Match) -> float | Refusal:
    """The number added to the variance, if a normalisation operator can take it."""
    shifted, x = match.node("shifted"), match["x"]
    if x.dtype == np.float16:
        reason = (
            f"{shifted.label}: in half precision the squares overflow from 256 on, and the result is 0 there; the "
            "normalisation operators work in single precision, where it is not"
        )
        return Refusal(reason, x, "would apply if the squares were taken in float32 (a Cast before them, one after)")
    if shifted.output.shape is None or match["x"].shape is None:
        return Refusal(f"{shifted.label}: its shape is not known", shifted)
    if len(shifted.output.shape) != len(match["x"].shape):
        return Refusal(f"{shifted.label}: the epsilon raises the rank", shifted)
    gamma = match.get("gamma")
    if gamma is not None and not same_shape(match.root.output.shape, x.shape):
        return Refusal(f"{match.root.label}: '{gamma.name}' may enlarge '{x.name}'", gamma)
    epsilon = float(match.array("epsilon").reshape(-1)[0])
    return epsilon if epsilon >= 0 else Refusal(f"{shifted.label}: the epsilon is negative", shifted)


def _ones(x: Value, axis: int, builder: Builder) -> Value:
    """A scale that changes nothing: one number for each normalised element, or one for all while the sizes are open."""
    assert x.shape is not None
    sizes = x.shape[axis:]
    known = [int(d) for d in sizes if isinstance(d, int)]
    return builder.constant(np.ones(known if len(known) == len(sizes) else [1], x.dtype), name="scale")


# ---- LayerNormalization --------------------------------------------------------------------------------------------

_MEAN = op("ReduceMean", _X, open_inputs=True, name="mean")
_CENTRED = op("Sub", _X, _MEAN, name="centred")
_MEAN_OF_SQUARES = op("ReduceMean", _square(_X), open_inputs=True, name="variance")
_DIFFERENCE = op("Sub", _MEAN_OF_SQUARES, _square(_MEAN))
_VARIANCE = either(
    op("ReduceMean", _square(_CENTRED), open_inputs=True, name="variance"),
    _DIFFERENCE,
    op("Max", _DIFFERENCE, const("zero", 0.0)),
    op("Relu", _DIFFERENCE),
)


def _layer_norm(match: Match, builder: Builder) -> list[Value] | Refusal:
    x = match["x"]
    mean, variance = match.node("mean"), match.node("variance")
    axis, second = _trailing_axes(mean, x), _trailing_axes(variance, x)
    if isinstance(axis, Refusal):
        return axis
    if isinstance(second, Refusal):
        return second
    if axis != second:
        return Refusal(f"{variance.label} and {mean.label} reduce other axes", variance)
    epsilon = _epsilon(match)
    if isinstance(epsilon, Refusal):
        return epsilon
    scale = _ones(x, axis, builder)
    y = builder.op("LayerNormalization", x, scale, name=match.root.name, axis=axis, epsilon=epsilon)
    return [_scaled(match, builder, y)]


def _scaled(match: Match, builder: Builder, y: Value) -> Value:
    """The normalised value times what stood inside."""
    gamma = match.get("gamma")
    return y if gamma is None else builder.op("Mul", y, gamma, name=match.root.name)


LAYER_NORM = RewriteRule(
    "transformer.layer_norm",
    _normalised(_CENTRED, _shifted(_VARIANCE)),
    _layer_norm,
    priority=1,
    doc="""Recognise LayerNormalization.

    Before: %d = Sub(%x, ReduceMean(%x, [-1])); %y = Div(%d, Sqrt(Add(ReduceMean(Pow(%d, 2), [-1]), 1e-5)))
    After:  %y = LayerNormalization(%x, ones) {axis = -1, epsilon = 1e-5}
    The square as Pow or Mul; the root as Div, Reciprocal or Pow by -0.5; the variance also as the mean of squares less
    the square of the mean; a scale multiplied in before the root or with it. Scale and shift are taken in afterwards.
    Refuses when: the axes are not the last ones, not kept, or differ; the rank is not known; the type is double, or
    half, whose squares overflow; a piece is used elsewhere.
    """,
)

# ---- the spelling that multiplies first ----------------------------------------------------------------------------

_EITHER_SIGN = either(_CENTRED, op("Sub", _MEAN, _X))
_RSTD = _inverse_root(_shifted(op("ReduceMean", _square(_EITHER_SIGN), open_inputs=True, name="variance")))
_SCALED_RSTD = either(op("Mul", _RSTD, var("gamma")), _RSTD)
_MEAN_PART = op("Mul", _MEAN, _SCALED_RSTD)
_MINUS_MEAN = either(op("Mul", op("Neg", _MEAN), _SCALED_RSTD), op("Neg", _MEAN_PART))
_FOLDED = either(
    op("Add", op("Mul", _X, _SCALED_RSTD), op("Add", _MINUS_MEAN, var("beta"))),
    op("Add", op("Mul", _X, _SCALED_RSTD), op("Sub", var("beta"), _MEAN_PART)),
    op("Add", op("Mul", _X, _SCALED_RSTD), _MINUS_MEAN),
    op("Sub", op("Mul", _X, _SCALED_RSTD), _MEAN_PART),
)


def _folded(match: Match, builder: Builder) -> list[Value] | Refusal:
    made = _layer_norm(match, builder)
    if isinstance(made, Refusal):
        return made
    x, result = match["x"], match.root.output
    if x.shape is None or result.shape is None or len(x.shape) != len(result.shape):
        return Refusal(f"{match.root.label}: the scale or shift may enlarge '{x.name}'", match.root)
    (y,) = made
    beta = match.get("beta")
    return [y if beta is None else builder.op("Add", y, beta, name=match.root.name)]


FOLDED_LAYER_NORM = RewriteRule(
    "transformer.layer_norm_folded",
    _FOLDED,
    _folded,
    priority=2,
    doc="""Recognise LayerNormalization where scale and mean have been multiplied out.

    Before: %s = Mul(Reciprocal(Sqrt(Add(%variance, 1e-5))), %gamma)
            %y = Add(Mul(%x, %s), Sub(%beta, Mul(%mean, %s)))
    After:  %y = Add(Mul(LayerNormalization(%x, ones), %gamma), %beta)
    As batch-normalisation helpers of frameworks write it when they are used along the last axis.
    Refuses when: as transformer.layer_norm.
    """,
)

# ---- RMSNormalization ----------------------------------------------------------------------------------------------

_MEAN_SQUARE = op("ReduceMean", _square(_X), open_inputs=True, name="mean_square")


def _rms(match: Match, builder: Builder) -> list[Value] | Refusal:
    x = match["x"]
    axis = _trailing_axes(match.node("mean_square"), x)
    if isinstance(axis, Refusal):
        return axis
    epsilon = _epsilon(match)
    if isinstance(epsilon, Refusal):
        return epsilon
    scale = _ones(x, axis, builder)
    y = builder.op("RMSNormalization", x, scale, name=match.root.name, axis=axis, epsilon=epsilon)
    return [_scaled(match, builder, y)]


RMS_NORM = RewriteRule(
    "transformer.rms_norm",
    _normalised(_X, _shifted(_MEAN_SQUARE)),
    _rms,
    doc="""Recognise RMSNormalization.

    Before: %y = Div(%x, Sqrt(Add(ReduceMean(Pow(%x, 2), [-1]), 1e-6)))
    After:  %y = RMSNormalization(%x, ones) {axis = -1, epsilon = 1e-6}
    Spellings as transformer.layer_norm. The scale is taken in afterwards.
    Refuses when: as transformer.layer_norm.
    """,
)

RULES = (FOLDED_LAYER_NORM, LAYER_NORM, RMS_NORM)
