"""The operator Attention in the pieces that it is defined by, so that there is one way to fuse an attention."""

from __future__ import annotations

import math

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.ir.operators.attention import AttentionDims, attention_dims
from autofusion.rules import Builder, Match, Refusal, RewriteRule, op

_INFINITY = float("inf")
_FLOAT = np.dtype(np.float32)
_MASK, _PAST_KEY, _PAST_VALUE = 3, 4, 5
"""Places of the operands."""


def _sizes(node: Node) -> AttentionDims | Refusal:
    """The sizes, where the pieces can be written down."""
    sizes = attention_dims(node)
    if sizes is None:
        return Refusal(f"{node.label}: a rank is not known", node)
    for value in node.inputs[: _PAST_VALUE + 1]:
        if value is not None and value.dtype not in (_FLOAT, np.dtype(np.bool_)):
            return Refusal(f"{node.label}: '{value.name}' is {value.type}, the pieces are written for float32", value)
    if attribute(node, "softmax_precision") not in (None, _FLOAT, 1):
        return Refusal(f"{node.label}: its Softmax is taken in another type than float32", node)
    if len(node.outputs) > 3 and node.outputs[3].use_count:
        return Refusal(f"{node.label}: its scores '{node.outputs[3].name}' are asked for too", node.outputs[3])
    named = {"head size": sizes.head_size, "number of heads": sizes.query_heads, "number of key heads": sizes.kv_heads}
    if attribute(node, "is_causal"):
        named |= {"number of queries": sizes.queries, "number of keys": sizes.total, "length of the past": sizes.past}
    for name, size in named.items():
        if not isinstance(size, int):
            return Refusal(f"{node.label}: the {name} is not known yet", node)
    mask = node.operand(_MASK)
    if mask is not None and (mask.shape is None or not mask.shape or mask.shape[-1] != sizes.total):
        return Refusal(f"{node.label}: the mask '{mask.name}' may not speak of every key", mask)
    return sizes


def _check(match: Match) -> Refusal | None:
    sizes = _sizes(match.root)
    return sizes if isinstance(sizes, Refusal) else None


def _pieces(match: Match, builder: Builder) -> list[Value | None]:
    node, b = match.root, builder
    sizes = _sizes(node)
    assert isinstance(sizes, AttentionDims)
    q, k, v = (
        _by_head(b, value, heads, sizes.packed)
        for value, heads in zip(node.inputs[:3], (sizes.query_heads, sizes.kv_heads, sizes.kv_heads), strict=True)
    )
    held = [node.operand(i) for i in (_PAST_KEY, _PAST_VALUE)]
    k, v = (x if past is None else b.op("Concat", past, x, axis=2) for past, x in zip(held, (k, v), strict=True))
    assert isinstance(sizes.query_heads, int) and isinstance(sizes.kv_heads, int) and isinstance(sizes.head_size, int)
    group = sizes.query_heads // sizes.kv_heads
    keys, values = (_repeated(b, x, sizes.query_heads, group) for x in (k, v))
    scale = attribute(node, "scale")
    scale = 1 / math.sqrt(sizes.head_size) if scale is None else scale
    scores = b.op("MatMul", q, b.op("Transpose", keys, perm=[0, 1, 3, 2]), name=node.name)
    scores = b.op("Mul", scores, b.constant(scale, _FLOAT))
    cap = attribute(node, "softcap")
    if cap:
        number = b.constant(cap, _FLOAT)
        scores = b.op("Mul", b.op("Tanh", b.op("Div", scores, number)), number)
    scores, seen = _masked(b, node, sizes, scores)
    weights = b.op("Softmax", scores, axis=-1)
    if seen is not None:
        weights = b.op("Where", seen, weights, b.constant(0.0, _FLOAT))
    y = b.op("MatMul", weights, values)
    if sizes.packed:
        y = b.op("Reshape", b.op("Transpose", y, perm=[0, 2, 1, 3]), b.constant([0, 0, -1], np.int64))
    return [y, k, v, None][: len(node.outputs)]


def _by_head(b: Builder, value: Value | None, heads: object, packed: bool) -> Value:
    """[batch, heads, length, size]."""
    assert value is not None
    if not packed:
        return value
    split = b.op("Reshape", value, b.constant([0, 0, heads, -1], np.int64))
    return b.op("Transpose", split, perm=[0, 2, 1, 3])


def _repeated(b: Builder, x: Value, heads: int, group: int) -> Value:
    """Keys or values once for every head that reads them."""
    if group == 1:
        return x
    spread = b.op("Unsqueeze", x, b.constant([2], np.int64))
    spread = b.op("Expand", spread, b.constant([1, 1, group, 1, 1], np.int64))
    # Heads and group become one axis, in two steps: a Reshape leaves one size open at most.
    flat = b.op("Reshape", b.op("Transpose", spread, perm=[0, 3, 1, 2, 4]), b.constant([0, 0, heads, -1], np.int64))
    return b.op("Transpose", flat, perm=[0, 2, 1, 3])


def _masked(b: Builder, node: Node, sizes: AttentionDims, scores: Value) -> tuple[Value, Value | None]:
    """The masked scores, and which queries see a key at all (None: all do)."""
    mask = node.operand(_MASK)
    low, zero = b.constant(-_INFINITY, _FLOAT), b.constant(0.0, _FLOAT)
    causal = None
    if attribute(node, "is_causal"):
        assert isinstance(sizes.queries, int) and isinstance(sizes.total, int) and isinstance(sizes.past, int)
        allowed = np.arange(sizes.total)[None, :] <= np.arange(sizes.queries)[:, None] + sizes.past
        causal = None if allowed.all() else np.where(allowed, 0, -_INFINITY)
    # Hidden scores are added to, not replaced: one that is not a number stays so.
    bias = None if causal is None else b.constant(causal, _FLOAT, "causal")
    if mask is None:
        return (scores if bias is None else b.op("Add", scores, bias)), None
    own = b.op("Where", mask, zero, low) if mask.dtype == np.bool_ else mask
    bias = own if bias is None else b.op("Add", own, bias)
    scores = b.op("Add", scores, bias)
    best = b.op("ReduceMax", bias, b.constant([-1], np.int64), keepdims=1)
    return scores, b.op("Not", b.op("Equal", best, low))


ATTENTION_PIECES = RewriteRule(
    "transformer.attention_pieces",
    op("Attention", open_inputs=True),
    _pieces,
    _check,
    portable=False,
    doc="""Write the operator Attention out as products, mask and Softmax, which fuse.

    Before: %y = Attention(%q, %k, %v, %mask)
    After:  %y = MatMul(Softmax(Add(Mul(MatMul(%q, Transpose(%k)), 0.125), %mask)), %v)
    With causal masks, softcap, heads that share keys, and keys and values of the past. A query that sees no key gets
    zeros.
    Refuses when: the type is not float32; the scores are asked for; the mask is shorter than the keys; sizes that must
    be written down are not known yet.
    """,
)

RULES = (ATTENTION_PIECES,)
