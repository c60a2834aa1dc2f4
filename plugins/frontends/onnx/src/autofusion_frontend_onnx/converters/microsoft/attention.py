"""Attention in the forms that onnxruntime writes: packed projections, biases, masks of several shapes, caches."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"


@converter("Attention", domain=_MS)
def attention(call: Call) -> list[Value | None]:
    """softmax(q k^T * scale + mask) v, with q, k and v cut from one projection of the operand."""
    x, weights, bias = call.required(0), call.required(1), call.operand(2)
    heads = call.attr("num_heads")
    if call.attr("do_rotary", 0) or call.operand(6) is not None:
        call.fail("rotary embeddings and shared caches are not supported")
    projected = call.emit("MatMul", x, weights)
    if bias is not None:
        projected = call.emit("Add", projected, bias)
    sizes = call.attr("qkv_hidden_sizes")
    split = call.node(
        "Split",
        [projected, call.ints(sizes, "sizes")] if sizes else [projected],
        {"axis": 2} if sizes else {"axis": 2, "num_outputs": 3},
        outputs=3,
    )
    q, k, v = (_by_head(call, part, heads) for part in split.outputs)
    present = None
    past = call.operand(4)
    if past is not None:
        halves = call.node("Split", [past], {"axis": 0, "num_outputs": 2}, outputs=2).outputs
        old_k, old_v = (call.emit("Squeeze", half, call.ints([0])) for half in halves)
        k, v = call.emit("Concat", old_k, k, axis=2), call.emit("Concat", old_v, v, axis=2)
    if call.wants(1):
        present = call.emit("Concat", *(call.emit("Unsqueeze", s, call.ints([0])) for s in (k, v)), axis=0)
    masks = [m for m in (_mask(call, call.operand(3), q, k), call.operand(5)) if m is not None]
    if call.attr("unidirectional", 0):
        masks.append(_causal(call, q, k))
    return [_attend(call, q, k, v, masks), present]


@converter("MultiHeadAttention", domain=_MS)
def multi_head_attention(call: Call) -> list[Value | None]:
    """softmax(q k^T * scale + mask) v with q, k and v already projected; the bias holds those of all three."""
    query, key, value, bias = call.required(0), call.operand(1), call.operand(2), call.operand(3)
    if key is None or value is None or call.rank(query) != 3:
        call.fail("packed operands are not supported")
    if any(call.operand(i) is not None for i in range(8, 10)):
        call.fail("shared caches are not supported")
    heads = call.attr("num_heads")
    parts = [query, key, value]
    if bias is not None:
        sizes = [call.dim(query, -1), call.dim(query, -1)]
        sizes.append(call.dim(value, -1) if call.rank(value) == 3 else sizes[0])
        lengths = call.emit("Concat", *sizes, axis=0)
        biases = call.node("Split", [bias, lengths], {"axis": 0}, outputs=3).outputs
        parts = [call.emit("Add", p, b) if call.rank(p) == 3 else p for p, b in zip(parts, biases, strict=True)]
    q, k, v = (_by_head(call, p, heads) if call.rank(p) == 3 else p for p in parts)
    if call.operand(6) is not None and call.operand(7) is not None:
        k = call.emit("Concat", call.operand(6), k, axis=2)
        v = call.emit("Concat", call.operand(7), v, axis=2)
    masks = [m for m in (_mask(call, call.operand(4), q, k), call.operand(5)) if m is not None]
    if call.attr("unidirectional", 0):
        masks.append(_causal(call, q, k))
    return [_attend(call, q, k, v, masks), k, v]


def _by_head(call: Call, x: Value, heads: int) -> Value:
    """[batch, length, heads * size] to [batch, heads, length, size]."""
    return call.emit("Transpose", call.emit("Reshape", x, call.ints([0, 0, heads, -1])), perm=[0, 2, 1, 3])


def _attend(call: Call, q: Value, k: Value, v: Value, masks: list[Value]) -> Value:
    scale = call.attr("scale", 0.0)
    if scale:
        factor = call.like(scale, q, "scale")
    else:
        size = call.emit("Cast", call.emit("Squeeze", call.dim(q, -1)), to=call.dtype(q))
        factor = call.emit("Reciprocal", call.emit("Sqrt", size))
    scores = call.emit("Mul", call.emit("MatMul", q, call.emit("Transpose", k, perm=[0, 1, 3, 2])), factor)
    for mask in masks:
        scores = call.emit("Add", scores, mask)
    y = call.emit("Transpose", call.emit("MatMul", call.emit("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return call.emit("Reshape", y, call.ints([0, 0, -1]))


def _mask(call: Call, mask: Value | None, q: Value, k: Value) -> Value | None:
    """Zero where a key may be seen, a large negative number where not; broadcasts to [batch, heads, queries, keys]."""
    if mask is None:
        return None
    rank = call.rank(mask)
    if rank == 1:
        if mask.shape is None or q.shape is None or mask.shape[0] != q.shape[0]:
            call.fail("a mask of begins and ends is not supported; expected one length for each row of the batch")
        keys = call.emit("Range", call.ints(0), call.emit("Squeeze", call.dim(k, 2)), call.ints(1))
        lengths = call.emit("Unsqueeze", call.emit("Cast", mask, to=I64), call.ints([1]))
        seen = call.emit("Cast", call.emit("Less", keys, lengths), to=call.dtype(q))
    elif rank in (2, 3):
        seen = call.emit("Cast", mask, to=call.dtype(q))
    else:
        call.fail(f"a mask of rank {rank} is not supported; expected 1 to 3")
    hidden = call.emit("Sub", call.like(1.0, q, "one"), seen)
    bias = call.emit("Mul", hidden, call.like(call.attr("mask_filter_value", -10000.0), q, "hidden"))
    return call.emit("Unsqueeze", bias, call.ints([1, 2] if rank < 3 else [1]))


def _causal(call: Call, q: Value, k: Value) -> Value:
    """A query sees the keys up to its own position; the queries are the last of the keys' positions."""
    queries, keys = (call.emit("Squeeze", call.dim(x, 2)) for x in (q, k))
    first = call.emit("Sub", keys, queries)
    rows = call.emit("Unsqueeze", call.emit("Range", first, keys, call.ints(1)), call.ints([1]))
    columns = call.emit("Range", call.ints(0), keys, call.ints(1))
    hidden = call.like(float(np.finfo(np.float32).min) if call.dtype(q).itemsize > 2 else -65504.0, q, "hidden")
    return call.emit("Where", call.emit("Greater", columns, rows), hidden, call.like(0.0, q, "zero"))


@converter("GroupQueryAttention", domain=_MS)
def group_query_attention(call: Call) -> list[Value | None]:
    """Causal attention with fewer heads of keys and values, a cache for each row of the batch, and rotary embedding.

    New keys go where the row's own past ends; nothing behind them is seen. A row's length is its operand plus one.
    """
    if any(call.operand(i) is not None for i in range(9, 16)) or call.attr("smooth_softmax", 0):
        call.fail("explicit positions, biases, sinks and quantised caches are not supported")
    heads, groups = call.attr("num_heads"), call.attr("kv_num_heads")
    q, k, v = _separate(call, heads, groups)
    length, total = call.dim(q, 2), call.emit("Reshape", call.required(6), call.ints([1]))
    total = call.emit("Cast", total, to=I64)
    ends = call.emit("Cast", call.emit("Reshape", call.required(5), call.ints([-1])), to=I64)
    begins = call.emit("Sub", call.emit("Add", ends, call.ints([1])), length)
    begins = call.emit("Where", call.emit("Equal", length, total), call.ints([0]), begins)
    steps = call.emit("Range", call.ints(0), call.emit("Squeeze", length), call.ints(1))
    positions = call.emit("Add", call.emit("Unsqueeze", begins, call.ints([1])), steps)
    if call.attr("do_rotary", 0):
        rotary = {"interleaved": call.attr("rotary_interleaved", 0)}
        q, k = (
            call.emit("RotaryEmbedding", x, call.required(7), call.required(8), positions, **rotary) for x in (q, k)
        )
    keys, values = (_cached(call, call.operand(3 + i), x, positions, total) for i, x in enumerate((k, v)))
    columns = call.emit("Range", call.ints(0), call.emit("Squeeze", call.dim(keys, 2)), call.ints(1))
    rows = call.emit("Unsqueeze", positions, call.ints([1, 3]))
    hidden = call.emit("Greater", columns, rows)
    window = call.attr("local_window_size", -1)
    if window > 0:
        oldest = call.emit("Sub", rows, call.ints(window - 1))
        hidden = call.emit("Or", hidden, call.emit("Less", columns, oldest))
    q = call.emit("Reshape", q, call.ints([0, groups, heads // groups, -1, _size(call, q)]))
    spread = [call.emit("Unsqueeze", x, call.ints([2])) for x in (keys, values)]
    scores = call.emit("MatMul", q, call.emit("Transpose", spread[0], perm=[0, 1, 2, 4, 3]))
    scores = call.emit("Mul", scores, call.like(call.attr("scale", 0.0) or _size(call, q) ** -0.5, q, "scale"))
    softcap = call.attr("softcap", 0.0)
    if softcap:
        cap = call.like(softcap, q, "cap")
        scores = call.emit("Mul", call.emit("Tanh", call.emit("Div", scores, cap)), cap)
    lowest = call.like(float(np.finfo(np.float32).min) if call.dtype(q).itemsize > 2 else -65504.0, q, "hidden")
    scores = call.emit("Where", call.emit("Unsqueeze", hidden, call.ints([2])), lowest, scores)
    y = call.emit("MatMul", call.emit("Softmax", scores, axis=-1), spread[1])
    y = call.emit("Reshape", y, call.ints([0, heads, -1, _size(call, v)]))
    y = call.emit("Reshape", call.emit("Transpose", y, perm=[0, 2, 1, 3]), call.ints([0, 0, -1]))
    return [y, keys, values]


def _separate(call: Call, heads: int, groups: int) -> tuple[Value, Value, Value]:
    """Queries, keys and values by head; they may come as one operand."""
    query, key, value = call.required(0), call.operand(1), call.operand(2)
    if key is not None and value is not None:
        return _by_head(call, query, heads), _by_head(call, key, groups), _by_head(call, value, groups)
    width = None if query.shape is None else query.shape[-1]
    if not isinstance(width, int):
        call.fail("the width of the packed operand is not known")
    size = width // (heads + 2 * groups)
    sizes = call.ints([heads * size, groups * size, groups * size], "sizes")
    q, k, v = call.node("Split", [query, sizes], {"axis": 2}, outputs=3).outputs
    return _by_head(call, q, heads), _by_head(call, k, groups), _by_head(call, v, groups)


def _size(call: Call, x: Value) -> int:
    size = None if x.shape is None else x.shape[-1]
    if not isinstance(size, int):
        call.fail("the size of a head is not known")
    return size


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
