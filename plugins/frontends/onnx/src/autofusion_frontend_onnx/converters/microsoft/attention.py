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
    x, weights, bias = call.operand(0), call.operand(1), call.optional(2)
    if call.attr("do_rotary", 0) or call.attr("past_present_share_buffer", 0) or call.optional(6) is not None:
        call.fail("rotary embeddings and shared caches are not supported")
    projected = call.emit("MatMul", x, weights)
    if bias is not None:
        projected = call.emit("Add", projected, bias)
    return self_attention(call, projected, call.optional(3), call.optional(4), call.optional(5))


@converter("QAttention", domain=_MS)
def quantised_attention(call: Call) -> list[Value | None]:
    """As Attention, with an integer operand and integer weights, and a real bias and past."""
    x, weights, bias = call.operand(0), call.operand(1), call.operand(2)
    if call.attr("do_rotary", 0) or call.attr("past_present_share_buffer", 0):
        call.fail("rotary embeddings and shared caches are not supported")
    x_zero, w_zero = (
        None if call.optional(i) is None else call.emit("Reshape", call.operand(i), call.ints(shape))
        for i, shape in ((6, []), (7, [-1]))
    )
    product = call.emit("MatMulInteger", x, weights, x_zero, w_zero)
    scale = call.emit("Mul", call.operand(3), call.operand(4))
    projected = call.emit("Mul", call.emit("Cast", product, to=call.dtype(bias)), scale)
    return self_attention(call, call.emit("Add", projected, bias), call.optional(5), call.optional(8), None)


def self_attention(
    call: Call, projected: Value, mask: Value | None, past: Value | None, added: Value | None
) -> list[Value | None]:
    """Attention over q, k and v side by side [batch, length, 3 * hidden]; ``past`` holds keys and values."""
    heads, sizes = call.attr("num_heads"), call.attr("qkv_hidden_sizes")
    split = call.node(
        "Split",
        [projected, call.ints(sizes, "sizes")] if sizes else [projected],
        {"axis": 2} if sizes else {"axis": 2, "num_outputs": 3},
        outputs=3,
    )
    q, k, v = (by_head(call, part, heads) for part in split.outputs)
    present = None
    if past is not None:
        halves = call.node("Split", [past], {"axis": 0, "num_outputs": 2}, outputs=2).outputs
        old_k, old_v = (call.emit("Squeeze", half, call.ints([0])) for half in halves)
        k, v = call.emit("Concat", old_k, k, axis=2), call.emit("Concat", old_v, v, axis=2)
    if call.wants(1):
        present = call.emit("Concat", *(call.emit("Unsqueeze", s, call.ints([0])) for s in (k, v)), axis=0)
    masks = [m for m in (_mask(call, mask, q, k), added) if m is not None]
    if call.attr("unidirectional", 0):
        masks.append(_causal(call, q, k))
    return [_attend(call, q, k, v, masks)[0], present]


@converter("MultiHeadAttention", domain=_MS)
def multi_head_attention(call: Call) -> list[Value | None]:
    """softmax(q k^T * scale + mask) v with q, k and v already projected; the bias holds those of all three."""
    if any(call.optional(i) is not None for i in range(8, 10)):
        call.fail("shared caches and beams are not supported")
    q, k, v = _three(call)
    if call.optional(6) is not None and call.optional(7) is not None:
        k = call.emit("Concat", call.optional(6), k, axis=2)
        v = call.emit("Concat", call.optional(7), v, axis=2)
    masks = [m for m in (_mask(call, call.optional(4), q, k), call.optional(5)) if m is not None]
    if call.attr("unidirectional", 0):
        masks.append(_causal(call, q, k))
    y, scores = _attend(call, q, k, v, masks)
    return [y, k, v, scores]


def _three(call: Call) -> tuple[Value, Value, Value]:
    """Queries, keys and values of MultiHeadAttention by head, with their bias.

    Packed: all in the first operand [batch, length, heads, 3, size], or keys and values in the second [..., 2, size].
    """
    query, key, value, bias = call.operand(0), call.optional(1), call.optional(2), call.optional(3)
    heads = call.attr("num_heads")
    by_head_already = [False, False, False]  # keys and values of another sequence may be, and have no bias then
    if call.rank(query) == 5:
        parts = [_packed(call, query, i) for i in range(3)]
    elif key is not None and call.rank(key) == 5:
        parts = [query, _packed(call, key, 0), _packed(call, key, 1)]
    elif key is not None and value is not None:
        parts = [query, key, value]
        by_head_already = [call.rank(p) == 4 for p in parts]
    else:
        call.fail("the values are missing, and neither the first operand nor the second one is packed (rank 5)")
    parts = [call.emit("Reshape", p, call.ints([0, 0, heads, -1])) if call.rank(p) == 3 else p for p in parts]
    if bias is not None:
        lengths = call.emit("Concat", *(_width(call, p, heads) for p in (parts[0], parts[0], parts[2])), axis=0)
        biases = call.node("Split", [bias, lengths], {"axis": 0}, outputs=3).outputs
        shaped = [call.emit("Reshape", b, call.ints([heads, -1])) for b in biases]
        parts = [p if r else call.emit("Add", p, b) for p, b, r in zip(parts, shaped, by_head_already, strict=True)]
    q, k, v = (
        p if r else call.emit("Transpose", p, perm=[0, 2, 1, 3]) for p, r in zip(parts, by_head_already, strict=True)
    )
    return q, k, v


def _packed(call: Call, x: Value, part: int) -> Value:
    """One of the parts of [batch, length, heads, parts, size]."""
    return call.emit("Gather", x, call.ints(part), axis=3)


def _width(call: Call, x: Value, heads: int) -> Value:
    """The width of all heads of ``x`` [..., size] together."""
    size = call.dim(x, -1)
    return (
        call.ints([heads * int(size.const.item())])
        if size.const is not None
        else call.emit("Mul", size, call.ints([heads]))
    )


def by_head(call: Call, x: Value, heads: int) -> Value:
    """[batch, length, heads * size] to [batch, heads, length, size]."""
    return call.emit("Transpose", call.emit("Reshape", x, call.ints([0, 0, heads, -1])), perm=[0, 2, 1, 3])


def scale_of(call: Call, q: Value) -> Value:
    """The factor of the scores: the attribute, or one over the root of the size of a head."""
    scale = call.attr("scale", 0.0)
    if scale:
        return call.like(scale, q, "scale")
    size = call.emit("Cast", call.emit("Squeeze", call.dim(q, -1)), to=call.dtype(q))
    return call.emit("Reciprocal", call.emit("Sqrt", size))


def _attend(call: Call, q: Value, k: Value, v: Value, masks: list[Value]) -> tuple[Value, Value]:
    """The result [batch, length, heads * size], and the masked scores before Softmax."""
    scores = call.emit("Mul", call.emit("MatMul", q, call.emit("Transpose", k, perm=[0, 1, 3, 2])), scale_of(call, q))
    for mask in masks:
        scores = call.emit("Add", scores, mask)
    y = call.emit("Transpose", call.emit("MatMul", call.emit("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return call.emit("Reshape", y, call.ints([0, 0, -1])), scores


def _mask(call: Call, mask: Value | None, q: Value, k: Value) -> Value | None:
    """Zero where a key may be seen, a large negative number where not; broadcasts to [batch, heads, queries, keys].

    ``mask`` is one for each key [batch, keys], or each query and key [batch, queries, keys], or all that there may ever
    be [batch, 1, most, most]; or the number of keys of each row [batch], their ends and then their begins [2 * batch],
    or their numbers followed by the running totals of queries and keys [3 * batch + 2].
    """
    if mask is None:
        return None
    rank = call.rank(mask)
    if rank == 1:
        seen = call.emit("Cast", _between(call, mask, q, k), to=call.dtype(q))
    elif rank == 4:
        queries, keys = call.dim(q, 2), call.dim(k, 2)
        first = call.emit("Concat", call.emit("Sub", keys, queries), call.ints([0]), axis=0)
        last = call.emit("Concat", keys, keys, axis=0)
        seen = call.emit("Cast", call.emit("Slice", mask, first, last, call.ints([2, 3])), to=call.dtype(q))
    elif rank in (2, 3):
        seen = call.emit("Cast", mask, to=call.dtype(q))
    else:
        call.fail(f"a mask of rank {rank} is not supported; expected 1 to 4")
    hidden = call.emit("Sub", call.like(1.0, q, "one"), seen)
    bias = call.emit("Mul", hidden, call.like(call.attr("mask_filter_value", -10000.0), q, "hidden"))
    return bias if rank == 4 else call.emit("Unsqueeze", bias, call.ints([1, 2] if rank < 3 else [1]))


def _between(call: Call, mask: Value, q: Value, k: Value) -> Value:
    """Which keys lie inside each row of the batch [batch, keys], by a mask of numbers."""
    mask, batch = call.emit("Cast", mask, to=I64), call.dim(q, 0)
    keys = call.emit("Range", call.ints(0), call.emit("Squeeze", call.dim(k, 2)), call.ints(1))
    ends = call.emit("Slice", mask, call.ints([0]), batch, call.ints([0]))
    inside = call.emit("Less", keys, call.emit("Unsqueeze", ends, call.ints([1])))
    count, rows = call.dim(mask, 0), call.dim(q, 0)
    if count.const is not None and rows.const is not None and count.const.item() != 2 * rows.const.item():
        return inside
    # Begins are there if there are two numbers for each row; zeros stand for those that are missing.
    filled = call.emit("Concat", mask, call.emit("Expand", call.ints([0]), batch), axis=0)
    twice = call.emit("Mul", batch, call.ints([2]))
    begins = call.emit("Slice", filled, batch, twice, call.ints([0]))
    begins = call.emit("Mul", begins, call.emit("Cast", call.emit("Equal", count, twice), to=I64))
    return call.emit("And", inside, call.emit("GreaterOrEqual", keys, call.emit("Unsqueeze", begins, call.ints([1]))))


def _causal(call: Call, q: Value, k: Value) -> Value:
    """A query sees the keys up to its own position; the queries are the last of the keys' positions."""
    queries, keys = (call.emit("Squeeze", call.dim(x, 2)) for x in (q, k))
    first = call.emit("Sub", keys, queries)
    rows = call.emit("Unsqueeze", call.emit("Range", first, keys, call.ints(1)), call.ints([1]))
    columns = call.emit("Range", call.ints(0), keys, call.ints(1))
    hidden = call.like(float(np.finfo(np.float32).min) if call.dtype(q).itemsize > 2 else -65504.0, q, "hidden")
    return call.emit("Where", call.emit("Greater", columns, rows), hidden, call.like(0.0, q, "zero"))
