"""Rows F: attention and what surrounds it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autofusion.ir.graph import Value
from autofusion.testing.coverage.net import Net, Variant, table

_MINUS = -3.4028234663852886e38
_CAUSAL = np.tril(np.ones((1, 1, 6, 6), bool))
Masking = Callable[[Net, Value], Value]


def _q(g: Net) -> Value:
    return g.x(1, 2, 6, 8)


def _plain(g: Net, scores: Value) -> Value:
    return g.Mul(scores, 0.35355339)


def _sdpa(g: Net, masking: Masking = _plain, guard: Masking = lambda g, p: p, last: Masking = lambda g, y: y) -> Value:
    scores = masking(g, g.MatMul(_q(g), g.t(_q(g), 0, 1, 3, 2)))
    return last(g, g.MatMul(guard(g, g.Softmax(scores)), _q(g)))


def _added(g: Net, scores: Value) -> Value:
    return g.Add(_plain(g, scores), g.x(1, 1, 6, 6))


def _where(g: Net, scores: Value) -> Value:
    return g.Where(g.x(1, 1, 6, 6, dtype=bool), _plain(g, scores), _MINUS)


def _causal(g: Net, scores: Value) -> Value:
    return g.Where(g.k(_CAUSAL, bool), _plain(g, scores), _MINUS)


def _bert(g: Net, scores: Value) -> Value:
    mask = g.Cast(g.x(1, 1, 1, 6, dtype="int64"), to=np.dtype(np.float32))
    return g.Add(_plain(g, scores), g.Mul(g.Sub(1.0, mask), -10000.0))


def _guard(g: Net, p: Value) -> Value:
    return g.Where(g.IsNaN(p), 0.0, p)


def _scaled_q(g: Net) -> Value:
    q, k = g.Mul(_q(g), 0.5946), g.Mul(g.t(_q(g), 0, 1, 3, 2), 0.5946)
    return g.MatMul(g.Softmax(g.Add(g.MatMul(q, k), g.x(1, 1, 1, 6))), _q(g))


def _projected(g: Net, bias: bool = True, mask: bool = True, moved: bool = True) -> Value:
    """A block as BERT's export has it, from the hidden states to behind the merge of heads."""
    x = g.x(1, 6, 16)
    one = Net.lin if bias else Net.mm
    q, v = g.heads(one(g, x)), g.heads(one(g, x))
    k = g.heads(one(g, x), 2, 0, 2, 3, 1) if moved else g.t(g.heads(one(g, x)), 0, 1, 3, 2)
    scores = g.Div(g.MatMul(q, k), 2.828427)
    if mask:
        scores = g.Add(scores, g.x(1, 1, 1, 6))
    return g.view(g.t(g.MatMul(g.Softmax(scores), v), 0, 2, 1, 3), 1, 6, 16)


def _bmm(g: Net) -> Value:
    q, k, v = (g.view(_q(g), 2, 6, 8) for _ in range(3))
    scores = g.view(g.MatMul(q, g.t(k, 0, 2, 1)), 1, 2, 6, 6)
    return g.MatMul(g.Softmax(g.view(g.Add(scores, g.x(1, 1, 6, 6)), 2, 6, 6)), v)


def _transposed(g: Net) -> Value:
    q, k, v = g.x(1, 2, 8, 6), g.x(1, 2, 8, 6), g.x(1, 2, 8, 6)
    p = g.Softmax(g.Mul(g.MatMul(g.t(q, 0, 1, 3, 2), k), 0.3535))
    return g.MatMul(v, g.t(p, 0, 1, 3, 2))


def _einsum(g: Net, scores: str, values: str, *shape: int) -> Value:
    q, k, v = (g.x(*shape) for _ in range(3))
    p = g.Softmax(g.Mul(g.Einsum(q, k, equation=scores), 0.3535))
    return g.Einsum(p, v, equation=values)


def _gqa(g: Net) -> Value:
    def repeated(x: Value) -> Value:
        return g.view(g.Expand(g.Unsqueeze(x, g.i(2)), g.i(1, 2, 2, 6, 8)), 1, 4, 6, 8)

    q, k, v = g.x(1, 4, 6, 8), repeated(_q(g)), repeated(_q(g))
    return g.MatMul(g.Softmax(g.Mul(g.MatMul(q, g.t(k, 0, 1, 3, 2)), 0.3535)), v)


def _cache(g: Net) -> list[Value]:
    k = g.Concat(g.x(1, 2, 5, 8), g.x(1, 2, 1, 8), axis=2)
    v = g.Concat(g.x(1, 2, 5, 8), g.x(1, 2, 1, 8), axis=2)
    scores = _plain(g, g.MatMul(g.x(1, 2, 1, 8), g.t(k, 0, 1, 3, 2)))
    return [g.MatMul(g.Softmax(scores), v), k, v]


def _probabilities(g: Net) -> list[Value]:
    p = g.Softmax(_plain(g, g.MatMul(_q(g), g.t(_q(g), 0, 1, 3, 2))))
    return [g.MatMul(p, _q(g)), p]


def rope_half(g: Net, x: Value, split: bool = False) -> Value:
    """x * cos + rotate_half(x) * sin."""
    shape = x.tensor.static_shape
    half = shape[-1] // 2
    low, high = g.split(x, 2) if split else (g.cut(x, -1, 0, half), g.cut(x, -1, half, shape[-1]))
    turned = g.Concat(g.Neg(high), low, axis=-1)
    cos, sin = g.x(1, 1, *shape[-2:]), g.x(1, 1, *shape[-2:])
    return g.Add(g.Mul(x, cos), g.Mul(turned, sin))


def _rope_interleaved(g: Net) -> Value:
    x = _q(g)
    even, odd = g.cut(x, -1, 0, 8, 2), g.cut(x, -1, 1, 8, 2)
    turned = g.view(g.Concat(g.Unsqueeze(g.Neg(odd), g.i(-1)), g.Unsqueeze(even, g.i(-1)), axis=-1), 1, 2, 6, 8)
    return g.Add(g.Mul(x, g.x(1, 1, 6, 8)), g.Mul(turned, g.x(1, 1, 6, 8)))


def _attention_op(g: Net) -> Value:
    return g.many(1, "Attention", _q(g), _q(g), _q(g))[0]


VARIANTS: list[Variant] = [
    *table(
        "F49 sdpa",
        plain=(1, _sdpa),
        div=(1, lambda g: _sdpa(g, lambda g, s: g.Div(s, 2.828427))),
        mask_add=(1, lambda g: _sdpa(g, _added)),
        mask_where=(1, lambda g: _sdpa(g, _where)),
        mask_causal=(1, lambda g: _sdpa(g, _causal)),
        mask_bert=(2, lambda g: _sdpa(g, _bert)),
        isnan=(1, lambda g: _sdpa(g, _where, _guard)),
        head_mask=(1, lambda g: _sdpa(g, _added, lambda g, p: g.Mul(p, g.x(1, 2, 1, 1)))),
        scale_on_both=(1, _scaled_q),
        merge=(1, lambda g: _sdpa(g, _added, last=lambda g, y: g.view(g.t(y, 0, 2, 1, 3), 1, 6, 16))),
        operator=(1, _attention_op),
        bmm=(1, _bmm),
        transposed=(1, _transposed),
        einsum=(1, lambda g: _einsum(g, "bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd", 1, 2, 6, 8)),
        einsum_keras=(1, lambda g: _einsum(g, "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", 1, 6, 2, 8)),
        probabilities=(2, _probabilities),
        projected=(4, _projected),
        projected_no_bias=(4, lambda g: _projected(g, bias=False)),
        projected_transposes=(4, lambda g: _projected(g, moved=False)),
        linear=(2, lambda g: g.MatMul(_q(g), g.MatMul(g.t(_q(g), 0, 1, 3, 2), _q(g)))),
    ),
    *table(
        "F50 matmul_scale_mask",
        add=(1, lambda g: g.Add(g.Mul(g.MatMul(_q(g), g.x(1, 2, 8, 6)), 0.125), g.x(1, 1, 6, 6))),
        transposed=(1, lambda g: g.Add(g.Mul(g.MatMul(_q(g), g.t(_q(g), 0, 1, 3, 2)), 0.125), g.x(1, 1, 6, 6))),
    ),
    *table(
        "F51 mask_softmax",
        add=(1, lambda g: g.Softmax(g.Add(g.x(1, 2, 6, 6), g.x(1, 1, 6, 6)))),
        scale_add=(1, lambda g: g.Softmax(_added(g, g.x(1, 2, 6, 6)))),
        where=(1, lambda g: g.Softmax(_where(g, g.x(1, 2, 6, 6)))),
    ),
    *table("F52 gqa", expand=(1, _gqa)),
    *table("F52 kv_cache", concat=(3, _cache)),
    *table(
        "F52 rope",
        half=(1, lambda g: rope_half(g, _q(g))),
        split=(1, lambda g: rope_half(g, _q(g), split=True)),
        interleaved=(1, _rope_interleaved),
        operator=(1, lambda g: g.many(1, "RotaryEmbedding", _q(g), g.x(1, 6, 4), g.x(1, 6, 4))[0]),
    ),
]
