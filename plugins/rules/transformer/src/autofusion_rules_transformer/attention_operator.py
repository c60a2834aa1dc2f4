"""The operator Attention written out, so that it runs as what is recognised between MatMul and Softmax does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, Refusal, RewriteRule, op, var

_Y, _KEYS, _VALUES, _SCORES = range(4)
_MASK, _PAST_KEYS, _PAST_VALUES = 3, 4, 5


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Every size of an Attention node."""

    batch: int
    heads: int
    groups: int
    queries: int
    past: int
    keys: int
    size: int
    value_size: int


def _static(value: Value | None, ranks: tuple[int, ...]) -> list[int] | None:
    """The shape, if it is known to the last size and has one of ``ranks``."""
    shape = None if value is None else value.shape
    if shape is None or len(shape) not in ranks or not all(isinstance(d, int) for d in shape):
        return None
    return [int(d) for d in shape if isinstance(d, int)]


def _sizes(node: Node) -> _Sizes | None:
    shapes = []
    for value, heads in zip(node.inputs, ("q_num_heads", "kv_num_heads", "kv_num_heads"), strict=False):
        shape = _static(value, (3, 4))
        if shape is None:
            return None
        if len(shape) == 3:
            count = attribute(node, heads)
            shape = [shape[0], count, shape[1], shape[2] // count]
        shapes.append(shape)
    q, k, v = shapes
    past = 0
    if node.operand(_PAST_KEYS) is not None:
        held = _static(node.operand(_PAST_KEYS), (4,))
        if held is None:
            return None
        past = held[2]
    return _Sizes(q[0], q[1], k[1], q[2], past, past + k[2], q[3], v[3])


def _readable(node: Node) -> _Sizes | Refusal:
    """Every size of the node, if it can be written out."""
    dtype = node.inputs[0].dtype if node.inputs[0] is not None else None
    if dtype != np.float32:
        name = "unknown" if dtype is None else dtype.name
        return Refusal(f"{node.label}: its pieces would round to {name} in between", node, "would apply to float32")
    if len(node.outputs) > _SCORES and (node.outputs[_SCORES].use_count or node.outputs[_SCORES].is_output):
        return Refusal(f"{node.label}: its scores are wanted", node)
    sizes = _sizes(node)
    if sizes is None:
        return Refusal(f"{node.label}: its sizes are not all known", node)
    mask = node.operand(_MASK)
    if mask is not None:
        shape = _static(mask, (1, 2, 3, 4))
        if shape is None or shape[-1] not in (1, sizes.keys):
            return Refusal(f"{node.label}: its mask does not cover all {sizes.keys} keys", node)
        if mask.dtype not in (np.float32, np.bool_):
            return Refusal(f"{node.label}: its mask is neither float32 nor bool", node)
    return sizes


def _rewrite(match: Match, builder: Builder) -> list[Value | None] | Refusal:
    node = match.root
    sizes = _readable(node)
    if isinstance(sizes, Refusal):
        return sizes
    q = _by_head(builder, node.inputs[0], sizes.heads)
    keys = _with_past(builder, node, 1, _PAST_KEYS, sizes)
    values = _with_past(builder, node, 2, _PAST_VALUES, sizes)
    scale = attribute(node, "scale")
    scale = 1 / math.sqrt(sizes.size) if scale is None else scale
    spread = [_spread(builder, x, sizes, n) for x, n in ((keys, sizes.size), (values, sizes.value_size))]
    product = builder.op("MatMul", q, builder.op("Transpose", spread[0], perm=[0, 1, 3, 2]))
    scores = builder.op("Mul", product, builder.constant(scale, np.float32, "scale"))
    cap = attribute(node, "softcap")
    if cap:
        limit = builder.constant(cap, np.float32, "cap")
        scores = builder.op("Mul", builder.op("Tanh", builder.op("Div", scores, limit)), limit)
    bias, seen = _bias(builder, node, sizes)
    if bias is not None:
        scores = builder.op("Add", scores, bias)
    weights = builder.op("Softmax", scores, axis=-1)
    if seen is not None:
        weights = builder.op("Where", seen, weights, builder.constant(0, np.float32, "zero"))
    y = builder.op("MatMul", weights, spread[1])
    if node.inputs[0] is not None and node.inputs[0].shape is not None and len(node.inputs[0].shape) == 3:
        shape = [sizes.batch, sizes.queries, sizes.heads * sizes.value_size]
        y = builder.op("Transpose", y, perm=[0, 2, 1, 3])
        y = builder.op("Reshape", y, builder.constant(shape, np.int64, "shape"))
    results: list[Value | None] = [y, keys, values, None]
    return results[: len(node.outputs)]


def _by_head(builder: Builder, x: Value | None, heads: int) -> Value:
    """[batch, length, heads * size] as [batch, heads, length, size]; rank 4 is that already."""
    assert x is not None and x.shape is not None
    if len(x.shape) == 4:
        return x
    apart = builder.op("Reshape", x, builder.constant([0, 0, heads, -1], np.int64, "shape"))
    return builder.op("Transpose", apart, perm=[0, 2, 1, 3])


def _with_past(builder: Builder, node: Node, index: int, past: int, sizes: _Sizes) -> Value:
    x = _by_head(builder, node.inputs[index], sizes.groups)
    return x if node.operand(past) is None else builder.op("Concat", node.operand(past), x, axis=2)


def _spread(builder: Builder, x: Value, sizes: _Sizes, size: int) -> Value:
    """Keys or values of one head for each query head."""
    if sizes.heads == sizes.groups:
        return x
    share = sizes.heads // sizes.groups
    x = builder.op("Unsqueeze", x, builder.constant([2], np.int64, "axes"))
    shape = [sizes.batch, sizes.groups, share, sizes.keys, size]
    x = builder.op("Expand", x, builder.constant(shape, np.int64, "shape"))
    shape = [sizes.batch, sizes.heads, sizes.keys, size]
    return builder.op("Reshape", x, builder.constant(shape, np.int64, "shape"))


def _bias(builder: Builder, node: Node, sizes: _Sizes) -> tuple[Value | None, Value | None]:
    """What is added to the scores, and which queries see any key; None for nothing and for all of them.

    A query that sees no key has weights of zero, where Softmax gives NaN.
    """
    mask, bias = node.operand(_MASK), None
    if attribute(node, "is_causal"):
        hidden = np.arange(sizes.keys) > np.arange(sizes.queries)[:, None] + sizes.past
        bias = builder.constant(np.where(hidden, -np.inf, 0), np.float32, "causal")
    if mask is None:
        return bias, None
    nothing = builder.constant(0, np.float32, "nothing")
    hidden_value = builder.constant(-np.inf, np.float32, "hidden")
    added = builder.op("Where", mask, nothing, hidden_value) if mask.dtype == np.bool_ else mask
    bias = added if bias is None else builder.op("Add", bias, added)
    best = builder.op("ReduceMax", bias, builder.constant([-1], np.int64, "axes"), keepdims=1)
    return bias, builder.op("Greater", best, hidden_value)


RULE = RewriteRule(
    "transformer.attention_operator",
    op("Attention", var("q"), var("k"), var("v"), open_inputs=True),
    _rewrite,
    portable=False,
    doc="""Write the operator Attention out, so that it runs as attention does that is written out in the model.

    Before: %y = Attention(%q, %k, %v) {is_causal = 1}
    After:  %y = MatMul(Softmax(Add(Mul(MatMul(%q, Transpose(%k)), 0.125), causal)), %v)
    With heads cut out of the last axis, a past, shared keys and values, a cap of the scores, a mask.
    Refuses when: the type is not float32; a size is open; the scores are wanted; the mask covers some keys only.
    """,
)

RULES = (RULE,)
