"""Move a Pad into the padding of the convolution or pooling behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    ints,
    normal_axis,
    not_constant,
    op,
    scalar,
    var,
)

NON_NEGATIVE = frozenset({"Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softplus", "Sqrt"})
"""Operators whose results are never below zero."""


def pad_amounts(node: Node) -> tuple[list[int], list[int]] | Refusal:
    """``(low, high)`` for every axis of a Pad with constant amounts."""
    amounts, rank_of = ints(node.operand(1)), node.output.shape
    if amounts is None:
        value = node.operand(1)
        return Refusal(f"{node.label}: {not_constant(value) if value else 'its amounts are absent'}", value or node)
    if rank_of is None:
        return Refusal(f"{node.label}: the rank of its result is not known", node)
    rank = len(rank_of)
    axes = list(range(rank))
    if node.operand(3) is not None:
        given = ints(node.operand(3))
        if given is None:
            return Refusal(f"{node.label}: its axes are not constant", node.operand(3))
        axes = [normal_axis(a, rank) for a in given]
    low, high = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = amounts[i], amounts[len(axes) + i]
    return low, high


def _fill(node: Node) -> float | None:
    """What a Pad fills with; None if it is not a constant number."""
    if attribute(node, "mode") != "constant":
        return None
    value = node.operand(2)
    return 0.0 if value is None else scalar(value)


def _kernel(node: Node) -> list[int] | None:
    kernel = node.attr("kernel_shape")
    if kernel:
        return [int(k) for k in kernel]
    weight = node.operand(1)
    dims = None if weight is None or weight.shape is None else weight.shape[2:]
    return [int(d) for d in dims] if dims is not None and all(isinstance(d, int) for d in dims) else None  # type: ignore[arg-type]


def _own_pads(node: Node, extent: Sequence[object]) -> tuple[list[int], list[int]] | Refusal:
    """The padding that the node itself asks for, on an operand of spatial size ``extent``."""
    count, auto = len(extent), attribute(node, "auto_pad")
    if auto == "VALID":
        return [0] * count, [0] * count
    if auto == "NOTSET":
        pads = [int(p) for p in node.attr("pads") or [0] * (2 * count)]
        return pads[:count], pads[count:]
    kernel = _kernel(node)
    if kernel is None or not all(isinstance(d, int) for d in extent):
        return Refusal(f"{node.label}: auto_pad is {auto} and a size is not known", node)
    strides, dilations = node.attr("strides") or [1] * count, node.attr("dilations") or [1] * count
    low, high = [], []
    for size, k, s, d in zip(extent, kernel, strides, dilations, strict=True):
        assert isinstance(size, int)
        total = max(0, (math.ceil(size / s) - 1) * s + (k - 1) * d + 1 - size)
        small = total // 2
        low.append(small if auto == "SAME_UPPER" else total - small)
        high.append(total - low[-1])
    return low, high


def merged_pads(pad: Node, node: Node, fill: float | None = 0.0) -> list[int] | Refusal:
    """Explicit pads of ``node`` that do what ``pad`` and the node's own padding do together."""
    site = arrow(pad, node)
    if attribute(pad, "mode") != "constant":
        return Refusal(f"{site}: its mode is '{attribute(pad, 'mode')}', only zeros can move", pad)
    found = _fill(pad)
    if found is None or (fill is not None and found != fill):
        what = "what it fills with is not constant" if found is None else f"it fills with {found:g}, not with {fill:g}"
        return Refusal(f"{site}: {what}", pad.operand(2) or pad)
    amounts = pad_amounts(pad)
    if isinstance(amounts, Refusal):
        return amounts.at(site)
    low, high = amounts
    if min(low + high, default=0) < 0:
        return Refusal(f"{site}: it crops (a negative amount)", pad)
    if any(low[:2]) or any(high[:2]):
        return Refusal(f"{site}: it pads the batch or the channels", pad)
    assert pad.output.shape is not None
    own = _own_pads(node, pad.output.shape[2:])
    if isinstance(own, Refusal):
        return own.at(site)
    merged_low, merged_high = np.add(low[2:], own[0]), np.add(high[2:], own[1])
    return [int(p) for p in (*merged_low, *merged_high)]


def _rebuilt(match: Match, builder: Builder, pads: list[int], **attrs: object) -> list[Value]:
    node = match.root
    new = {k: v for k, v in node.attrs.items() if k != "auto_pad"} | {"pads": pads} | attrs
    return [builder.node(node.op, [match["x"], *node.inputs[1:]], new, name=node.name).output]


def _rewrite_conv(match: Match, builder: Builder) -> list[Value] | Refusal:
    pads = merged_pads(match.node("pad"), match.root)
    return pads if isinstance(pads, Refusal) else _rebuilt(match, builder, pads)


def _small(pads: list[int], node: Node) -> bool:
    """True if every window surely has an element that is not padding."""
    kernel = _kernel(node)
    plain = all(d == 1 for d in node.attr("dilations") or ()) and not attribute(node, "ceil_mode")
    return plain and kernel is not None and all(p < k for p, k in zip(pads, kernel + kernel, strict=True))


def _pool_pads(match: Match) -> list[int] | Refusal:
    pad, pool = match.node("pad"), match.root
    site = arrow(pad, pool)
    if any(v.use_count for v in pool.outputs[1:]):
        return Refusal(f"{site}: the indices of the maxima are used", pool)
    pads = merged_pads(pad, pool, None if pool.op == "MaxPool" else 0.0)
    if isinstance(pads, Refusal):
        return pads
    if not _small(pads, pool):
        return Refusal(f"{site}: a window may lie in the padding alone, is dilated, or ends outside (ceil_mode)", pool)
    if pool.op == "AveragePool":
        own = _own_pads(pool, pad.output.shape[2:])  # type: ignore[index]
        if not attribute(pool, "count_include_pad") and (isinstance(own, Refusal) or any(own[0] + own[1])):
            return Refusal(f"{site}: it counts the zeros of the Pad, but not those of its own padding", pool)
        return pads
    fill = _fill(pad)
    if _is_lowest(fill, match["x"]) or (fill == 0 and _non_negative(match["x"])):
        return pads
    return Refusal(f"{site}: '{match['x'].name}' may be below the {fill:g} that the Pad fills with", pad)


def _is_lowest(fill: float | None, x: Value) -> bool:
    """True for minus infinity and the lowest finite number: no maximum of finite numbers is either by accident."""
    if fill == -np.inf:
        return True
    return fill is not None and np.issubdtype(x.tensor.dtype, np.floating) and fill <= np.finfo(x.tensor.dtype).min


def _non_negative(value: Value) -> bool:
    node = value.producer
    if node is None:
        return False
    if node.op == "Clip":
        low, high = scalar(node.operand(1)), node.operand(2)
        upper = float("inf") if high is None else scalar(high)
        return low is not None and low >= 0 and upper is not None and upper >= 0
    return node.op in NON_NEGATIVE


def _rewrite_pool(match: Match, builder: Builder) -> list[Value | None] | Refusal:
    pads = _pool_pads(match)
    if isinstance(pads, Refusal):
        return pads
    extra = {"count_include_pad": 1} if match.root.op == "AveragePool" else {}
    return [*_rebuilt(match, builder, pads, **extra), *[None] * (len(match.root.outputs) - 1)]


FOLD_PAD = RewriteRule(
    "conv.fold_pad",
    op("Conv", op("Pad", var("x"), open_inputs=True, name="pad", shared=True), open_inputs=True),
    _rewrite_conv,
    stage=Stage.FOLD,
    doc="""Let the convolution pad.

    Before: %y = Conv(Pad(%x, [0, 0, 1, 1, 0, 0, 1, 1]), %w) {pads = [0, 0, 0, 0]}
    After:  %y = Conv(%x, %w) {pads = [1, 1, 1, 1]}
    auto_pad is evaluated on the padded size first.
    Each reader of a Pad takes it in by itself; the Pad stays for those who cannot.
    Refuses when: the Pad has another mode or value, crops, pads batch or channels, or has computed amounts.
    """,
)

FOLD_PAD_POOL = RewriteRule(
    "conv.fold_pad_pool",
    op(("AveragePool", "MaxPool"), op("Pad", var("x"), open_inputs=True, name="pad", shared=True)),
    _rewrite_pool,
    stage=Stage.FOLD,
    doc="""Let the pooling pad.

    Before: %y = AveragePool(Pad(%x, [0, 0, 1, 1, 0, 0, 1, 1])) {kernel_shape = [3, 3]}
    After:  %y = AveragePool(%x) {kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1}
    Also for MaxPool, where the Pad fills with minus infinity, with the lowest number, or with zeros what is never
    negative.
    Refuses when: as conv.fold_pad; a window could lie in the padding alone; the maxima's indices are used.
    """,
)

RULES = (FOLD_PAD, FOLD_PAD_POOL)
