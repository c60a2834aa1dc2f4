"""GroupQueryAttention: a cache for each row of the batch, rotary embedding, and heads that share keys and values."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.microsoft.attention import by_head, scale_of
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"
_QUERY, _KEY, _VALUE, _PAST, _ENDS, _TOTAL, _COS, _SIN, _POSITIONS, _BIAS, _SINK = 0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11
_SCALES, _NORMS, _LENGTHS = (12, 13), (14, 15), 16
"""Places of the operands."""


@converter("GroupQueryAttention", domain=_MS)
def group_query_attention(call: Call) -> list[Value | None]:
    """Attention with fewer heads of keys and values, a cache for each row of the batch, and rotary embedding.

    New keys go where the row's own past ends; nothing behind them is seen. A row's length is its operand plus one.
    A sink joins the denominator of its head's Softmax, as if there were one more key that has no value.
    """
    _require_supported(call)
    heads, groups = call.attr("num_heads"), call.attr("kv_num_heads")
    q, k, v = _separate(call, heads, groups)
    q, k = _normalised(call, q, k)
    length = call.dim(q, 2)
    total = call.emit("Cast", call.emit("Reshape", call.operand(_TOTAL), call.ints([1])), to=I64)
    ends = call.emit("Cast", call.emit("Reshape", call.operand(_ENDS), call.ints([-1])), to=I64)
    begins = call.emit("Sub", call.emit("Add", ends, call.ints([1])), length)
    begins = call.emit("Where", call.emit("Equal", length, total), call.ints([0]), begins)
    steps = call.emit("Range", call.ints(0), call.emit("Squeeze", length), call.ints(1))
    positions = call.emit("Add", call.emit("Unsqueeze", begins, call.ints([1])), steps)
    if call.attr("do_rotary", 0):
        rotary = {"interleaved": call.attr("rotary_interleaved", 0)}
        turned = positions if call.optional(_POSITIONS) is None else call.operand(_POSITIONS)
        tables = call.operand(_COS), call.operand(_SIN)
        q, k = (call.emit("RotaryEmbedding", x, *tables, turned, **rotary) for x in (q, k))
    keys, values = (_cached(call, call.optional(_PAST + i), x, positions, total) for i, x in enumerate((k, v)))
    # [batch, groups, heads of a group, queries, size], against keys and values of one head for each group.
    q = call.emit("Reshape", q, _shape(call, call.dim(q, 0), groups, heads // groups, length, call.dim(q, 3)))
    spread = [call.emit("Unsqueeze", x, call.ints([2])) for x in (keys, values)]
    scores = call.emit("MatMul", q, call.emit("Transpose", spread[0], perm=[0, 1, 2, 4, 3]))
    scores = call.emit("Mul", scores, scale_of(call, q))
    softcap = call.attr("softcap", 0.0)
    if softcap:
        cap = call.like(softcap, q, "cap")
        scores = call.emit("Mul", call.emit("Tanh", call.emit("Div", scores, cap)), cap)
    bias = _bias(call, heads, groups, keys)
    if bias is not None:
        scores = call.emit("Add", scores, bias)
    lowest = call.like(float(np.finfo(np.float32).min) if call.dtype(q).itemsize > 2 else -65504.0, q, "hidden")
    scores = call.emit("Where", _hidden(call, positions, ends, keys), lowest, scores)
    weights = _weights(call, scores, q, heads, groups)
    y = call.emit("Transpose", call.emit("MatMul", weights, spread[1]), perm=[0, 3, 1, 2, 4])
    results: list[Value | None] = [call.emit("Reshape", y, call.ints([0, 0, -1])), keys, values]
    if call.wants(3):
        held = weights if call.attr("qk_output", 0) == 2 else scores
        shape = _shape(call, call.dim(held, 0), heads, call.dim(held, 3), call.dim(held, 4))
        results.append(call.emit("Reshape", held, shape))
    return results


def _require_supported(call: Call) -> None:
    if any(call.optional(i) is not None for i in _SCALES) or call.attr("kv_cache_bit_width", 0):
        call.fail("quantised caches are not supported")
    if call.attr("sliding_window_cache", 0):
        call.fail("caches of the size of a window are not supported")
    if call.optional(_LENGTHS) is not None:
        call.fail("padded chunks of queries (query_seqlens) are not supported")
    if call.attr("num_heads") % call.attr("kv_num_heads"):
        call.fail(f"{call.attr('num_heads')} heads cannot share {call.attr('kv_num_heads')} heads of keys")


def _shape(call: Call, *parts: Value | int) -> Value:
    """A shape of numbers and of vectors of one number; a constant if all are."""
    known = [p if isinstance(p, int) else None if p.const is None else int(p.const.item()) for p in parts]
    if None not in known:
        return call.ints([n for n in known if n is not None], "shape")
    return call.emit("Concat", *(call.ints([p]) if isinstance(p, int) else p for p in parts), axis=0)


def _separate(call: Call, heads: int, groups: int) -> tuple[Value, Value, Value]:
    """Queries, keys and values by head; they may come as one operand."""
    query, key, value = call.operand(_QUERY), call.optional(_KEY), call.optional(_VALUE)
    if key is not None and value is not None:
        return by_head(call, query, heads), by_head(call, key, groups), by_head(call, value, groups)
    size = call.emit("Div", call.dim(query, -1), call.ints([heads + 2 * groups]))
    sizes = call.emit("Mul", size, call.ints([heads, groups, groups]))
    q, k, v = call.node("Split", [query, sizes], {"axis": 2}, outputs=3).outputs
    return by_head(call, q, heads), by_head(call, k, groups), by_head(call, v, groups)


def _normalised(call: Call, q: Value, k: Value) -> tuple[Value, Value]:
    """Queries and keys, each head by the root of its mean square, where there are weights for that."""
    weights = [call.optional(i) for i in _NORMS]
    if all(w is None for w in weights):
        return q, k
    if any(w is None for w in weights):
        call.fail("the weights of only one of queries and keys are given; expected both or none")
    common = call.attr("qk_norm_epsilon", 1e-6)
    epsilons = [call.attr("q_norm_epsilon", common), call.attr("k_norm_epsilon", common)]
    q, k = (
        call.emit("RMSNormalization", x, w, axis=-1, epsilon=e)
        for x, w, e in zip((q, k), weights, epsilons, strict=True)
    )
    return q, k


def _hidden(call: Call, positions: Value, ends: Value, keys: Value) -> Value:
    """Which keys a query may not see: [batch, 1, 1, queries (or 1), keys]."""
    columns = call.emit("Range", call.ints(0), call.emit("Squeeze", call.dim(keys, 2)), call.ints(1))
    if not call.attr("causal", 1):
        return call.emit("Greater", columns, call.emit("Unsqueeze", ends, call.ints([1, 2, 3, 4])))
    rows = call.emit("Unsqueeze", positions, call.ints([1, 2, 4]))
    hidden = call.emit("Greater", columns, rows)
    window = call.attr("local_window_size", -1)
    if window > 0:
        oldest = call.emit("Sub", rows, call.ints(window - 1))
        hidden = call.emit("Or", hidden, call.emit("Less", columns, oldest))
    return hidden


def _bias(call: Call, heads: int, groups: int, keys: Value) -> Value | None:
    """What is added to the scores [batch or 1, heads or 1, queries, total], by group. Keys behind that are hidden."""
    bias = call.optional(_BIAS)
    if bias is None:
        return None
    longest, stated = call.dim(keys, 2), call.dim(bias, 3)
    if longest.const is None or longest.const != stated.const:
        missing = call.emit("Sub", longest, stated)
        bias = call.emit("Pad", bias, call.emit("Concat", call.ints([0]), missing, axis=0), None, call.ints([3]))
    bias = call.emit("Expand", bias, call.ints([1, heads, 1, 1]))
    sizes = call.dim(bias, 0), groups, heads // groups, call.dim(bias, 2), call.dim(bias, 3)
    return call.emit("Reshape", bias, _shape(call, *sizes))


def _weights(call: Call, scores: Value, q: Value, heads: int, groups: int) -> Value:
    """Softmax of the scores; with a sink, over one more column that is cut off again."""
    sink = call.optional(_SINK)
    if sink is None and not call.attr("smooth_softmax", 0):
        return call.emit("Softmax", scores, axis=-1)
    if sink is None:
        sink = call.const(np.zeros(heads), call.dtype(q), "sink")
    column = call.emit("Reshape", sink, call.ints([1, groups, heads // groups, 1, 1]))
    shape = _shape(call, call.dim(scores, 0), groups, heads // groups, call.dim(scores, 3), 1)
    wide = call.emit("Concat", scores, call.emit("Expand", column, shape), axis=-1)
    return call.emit("Slice", call.emit("Softmax", wide, axis=-1), call.ints([0]), call.ints([-1]), call.ints([4]))


def _cached(call: Call, past: Value | None, new: Value, positions: Value, total: Value) -> Value:
    """The cache with ``new`` [batch, heads, length, size] written at ``positions`` [batch, length]."""
    if past is None:
        return new
    longest = call.emit("Max", total, call.dim(past, 2))
    missing = call.emit("Sub", longest, call.dim(past, 2))
    widths = call.emit("Concat", call.ints([0]), missing, axis=0)
    wide = call.emit("Pad", past, widths, None, call.ints([2]))
    index = call.emit("Expand", call.emit("Unsqueeze", positions, call.ints([1, 3])), call.emit("Shape", new))
    return call.emit("ScatterElements", wide, index, new, axis=2)
