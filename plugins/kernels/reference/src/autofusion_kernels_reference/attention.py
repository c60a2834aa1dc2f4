"""Scaled dot product attention and rotary position embedding, in float64 and rounded once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, optional, wide


def _heads(x: np.ndarray, heads: int | None) -> np.ndarray:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size]; rank 4 is that already."""
    if x.ndim == 4:
        return x
    if heads is None:
        raise ValueError("rank-3 operands need q_num_heads and kv_num_heads")
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def _bias(node: Node, mask: np.ndarray | None, queries: int, keys: int, past: int) -> np.ndarray:
    """What is added to the scores: minus infinity where a key is hidden."""
    bias = np.zeros((queries, keys))
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype.kind == "b" else wide(mask)
        missing = keys - added.shape[-1]  # a shorter mask hides the keys that it does not mention
        if missing > 0:
            added = np.pad(added, [(0, 0)] * (added.ndim - 1) + [(0, missing)], constant_values=-np.inf)
        bias = bias + added
    if node.attr("is_causal", 0):
        seen = np.arange(keys)[None, :] <= np.arange(queries)[:, None] + past
        bias = bias + np.where(seen, 0.0, -np.inf)
    return bias


def _attention(node: Node, inputs: Inputs) -> list[Any]:
    q, k, v = inputs[:3]
    mask, past_key, past_value = (optional(inputs, i) for i in (3, 4, 5))
    flat = q.ndim == 3
    dtype, value_dtype = q.dtype, v.dtype
    q = _heads(q, node.attr("q_num_heads"))
    k, v = (_heads(x, node.attr("kv_num_heads")) for x in (k, v))
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    group = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(wide(x), group, axis=1) for x in (k, v))
    scale = node.attr("scale")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = np.matmul(wide(q), keys.swapaxes(-1, -2)) * scale
    seen = [scores]
    cap = node.attr("softcap", 0.0)
    if cap:
        scores = np.tanh(scores / cap) * cap
    seen.append(scores)
    bias = _bias(node, mask, q.shape[2], keys.shape[2], past)
    scores = scores + bias
    seen.append(scores)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    # A query that may see no key gets zeros, not NaN.
    weights = weights / np.where(np.isneginf(top), 1, total)
    seen.append(weights)
    y = np.matmul(weights, values)
    if flat:
        y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], y.shape[1] * y.shape[3])
    return [y.astype(value_dtype if flat else dtype), k, v, seen[node.attr("qk_matmul_output_mode", 0)].astype(dtype)]


def _rotary_embedding(node: Node, inputs: Inputs) -> list[Any]:
    x, cos, sin, positions = inputs[0], inputs[1], inputs[2], optional(inputs, 3)
    flat = x.ndim == 3
    y = wide(_heads(x, node.attr("num_heads") or None)).transpose(0, 2, 1, 3)  # [batch, sequence, heads, size]
    size = node.attr("rotary_embedding_dim", 0) or y.shape[-1]
    cos, sin = (wide(t) if positions is None else wide(t)[positions] for t in (cos, sin))
    cos, sin = (t[:, :, None, : size // 2] for t in (cos, sin))
    turned, rest = y[..., :size], y[..., size:]
    interleaved = node.attr("interleaved", 0)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, axis=-1)
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        turned = np.stack([real, imaginary], -1).reshape(turned.shape)
    else:
        turned = np.concatenate([real, imaginary], -1)
    y = np.concatenate([turned, rest], -1)
    y = y.reshape(x.shape) if flat else y.transpose(0, 2, 1, 3)
    return [y.astype(x.dtype)]


OPS: dict[str, OpFunction] = {"Attention": _attention, "RotaryEmbedding": _rotary_embedding}
