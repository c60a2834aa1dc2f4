"""Scale and shift behind a normalisation become its own parameters."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import (
    Builder,
    Match,
    Refusal,
    RewriteRule,
    arrow,
    constant_hint,
    is_float,
    is_parameter,
    normal_axis,
    not_constant,
    op,
    var,
)

NORMS = ("LayerNormalization", "RMSNormalization")


def _parameter(match: Match) -> np.ndarray | Refusal:
    """The constant of the match, spread over the normalised axes, in double precision."""
    norm, c = match.node("norm"), match["c"]
    site = arrow(norm, match.root)
    if c.const is None:
        return Refusal(f"{site}: {not_constant(c)}", c, constant_hint(c))
    x = norm.inputs[0]
    if x is None or x.shape is None:
        return Refusal(f"{site}: the rank of the normalised value is not known", norm)
    axis = normal_axis(attribute(norm, "axis"), len(x.shape))
    dims = x.shape[axis:]
    shape = c.const.shape
    if len(shape) > len(x.shape):
        return Refusal(f"{site}: '{c.name}' {list(shape)} enlarges the result", c)
    lead = max(0, len(shape) - len(dims))
    inner = shape[lead:]
    fits = all(d in (1, n) for d, n in zip(inner, dims[len(dims) - len(inner) :], strict=True))
    if not all(isinstance(d, int) for d in dims) or any(d != 1 for d in shape[:lead]) or not fits:
        return Refusal(f"{site}: '{c.name}' {list(shape)} does not lie along the normalised axes {list(dims)}", c)
    sizes = [int(d) for d in dims]  # type: ignore[arg-type]
    return np.broadcast_to(c.const.reshape(inner), sizes).astype(np.float64)


def _operand(norm: Node, index: int) -> np.ndarray | Refusal | None:
    value = norm.operand(index)
    if value is None:
        return None
    if value.const is None:
        return Refusal(f"{norm.label}: {not_constant(value)}", value, constant_hint(value))
    return value.const.astype(np.float64)


def _changed(match: Match) -> tuple[np.ndarray, np.ndarray | None] | Refusal:
    """Scale and shift of the normalisation with the root taken in."""
    norm, c = match.node("norm"), _parameter(match)
    scale, shift = _operand(norm, 1), _operand(norm, 2)
    for found in (c, scale, shift):
        if isinstance(found, Refusal):
            return found
    assert isinstance(c, np.ndarray) and isinstance(scale, np.ndarray) and not isinstance(shift, Refusal)
    if match.root.op == "Mul":
        changed = (scale * c, None if shift is None else shift * c)
    else:
        changed = (scale, c if shift is None else shift + c)
    dtype = match["c"].tensor.dtype
    for array in changed:
        if array is not None and not np.isfinite(array.astype(dtype).astype(np.float64)).all():
            return Refusal(f"{arrow(norm, match.root)}: a folded parameter would not be finite", match["c"])
    return changed


def _rewrite(match: Match, builder: Builder) -> list[Value] | Refusal:
    norm, changed = match.node("norm"), _changed(match)
    if isinstance(changed, Refusal):
        return changed
    dtype = match["c"].tensor.dtype
    names = ("scale", "shift")
    operands = [builder.constant(a, dtype, n) for a, n in zip(changed, names, strict=True) if a is not None]
    return [builder.node(norm.op, [norm.inputs[0], *operands], norm.attrs, name=match.root.name).output]


def _has_parameter(node: Node) -> bool:
    return is_float(node.output) and any(v is not None and is_parameter(v) for v in node.inputs)


_C = var("c", where=is_parameter)

NORM_SCALE = RewriteRule(
    "transformer.norm_scale",
    op("Mul", op(NORMS, open_inputs=True, name="norm"), _C, where=_has_parameter),
    _rewrite,
    doc="""Take a multiplication into the scale of a normalisation.

    Before: %y = Mul(LayerNormalization(%x, %scale, %shift), %c)
    After:  %y = LayerNormalization(%x, %scale * %c, %shift * %c)
    Also for RMSNormalization.
    Refuses when: a parameter is not a constant or may be overridden; %c lies along other axes than the normalised ones
    or enlarges the result; the result is used elsewhere.
    """,
)

NORM_SHIFT = RewriteRule(
    "transformer.norm_shift",
    op("Add", op("LayerNormalization", open_inputs=True, name="norm"), _C, where=_has_parameter),
    _rewrite,
    doc="""Take an addition into the shift of a normalisation.

    Before: %y = Add(LayerNormalization(%x, %scale), %c)
    After:  %y = LayerNormalization(%x, %scale, %c)
    Refuses when: as transformer.norm_scale.
    """,
)


def _is_open(node: Node) -> bool:
    """True if the scale is one number, and the sizes that it stands for are known."""
    x, scale = node.inputs[0], node.inputs[1]
    if x is None or x.shape is None or scale is None or scale.const is None or scale.const.size != 1:
        return False
    sizes = x.shape[normal_axis(attribute(node, "axis"), len(x.shape)) :]
    return all(isinstance(d, int) for d in sizes) and scale.const.shape != sizes


def _spread(match: Match, builder: Builder) -> list[Value]:
    node = match.root
    x, scale = node.inputs[0], node.inputs[1]
    assert x is not None and x.shape is not None and scale is not None and scale.const is not None
    sizes = [int(d) for d in x.shape[normal_axis(attribute(node, "axis"), len(x.shape)) :]]  # type: ignore[arg-type]
    full = builder.constant(np.full(sizes, scale.const.reshape(()), scale.const.dtype), name="scale")
    return [builder.node(node.op, [x, full, *node.inputs[2:]], node.attrs, name=node.name).output]


NORM_SPREAD = RewriteRule(
    "transformer.norm_spread",
    op(NORMS, open_inputs=True, where=_is_open),
    _spread,
    doc="""Write out a scale that is one number for all normalised elements, once their number is known.

    Before: %y = LayerNormalization(%x, [1])              %x: [N, 64]
    After:  %y = LayerNormalization(%x, ones)             ones: [64]
    Refuses when: never.
    """,
)

RULES = (NORM_SCALE, NORM_SHIFT, NORM_SPREAD)
