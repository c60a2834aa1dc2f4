"""Moves along rows: reductions, normalisations, products, attention.

A spelling comes with its near-misses: another constant, another axis, a factor that enlarges.
"""

from __future__ import annotations

import math

import numpy as np

from autofusion.ir.graph import Value
from tests.fuzz.fuzz_make import I64, Make, Skip
from tests.fuzz.fuzz_moves import along, move, near, number, scaled
from tests.fuzz.fuzz_operators import REDUCTIONS, axes_of, batch_norm, reduce_keep, softmax_op, transpose
from tests.fuzz.fuzz_pointwise import activation, arithmetic, unary


@move("rows", "any", "image")
def reduction(m: Make) -> None:
    x = m.pick_float(least=1)
    if m.maybe(0.4):
        x = m.choose(arithmetic, unary, lambda m, v: m.op("Mul", v, v))(m, x)
    y = m.op(m.choose(*REDUCTIONS), x) if m.maybe(0.1) else reduce_keep(m, x, m.int(0, 1))
    if m.maybe(0.5):
        y = m.choose(arithmetic, unary)(m, y)
    m.keep(y)


@move("rows", "any")
def arg(m: Make) -> None:
    x = m.pick_float(least=1)
    axis = m.int(-len(m.shape(x)), len(m.shape(x)) - 1)
    m.keep(m.op(m.choose("ArgMax", "ArgMin"), x, axis=axis, keepdims=m.int(0, 1), select_last_index=m.int(0, 1)))


@move("rows")
def top_k(m: Make) -> None:
    x = m.pick_float(least=1)
    rank = len(m.shape(x))
    axis = m.choose(-1, m.int(0, rank - 1))
    m.keep(*m.ops("TopK", x, m.ints(m.int(0, m.shape(x)[axis])), outputs=2, axis=axis, largest=m.int(0, 1)))


@move("rows")
def cumulative(m: Make) -> None:
    x = m.pick_float(least=1)
    axis = m.const(m.int(-len(m.shape(x)), len(m.shape(x)) - 1), I64, fixed=True)
    m.keep(m.op("CumSum", x, axis, exclusive=m.int(0, 1), reverse=m.int(0, 1)))


@move("rows", "any", "image")
def soft(m: Make) -> None:
    x = m.pick_float(least=1)
    if m.maybe(0.4):
        x = arithmetic(m, x)
    y = softmax_op(m, x)
    m.keep(arithmetic(m, y) if m.maybe(0.3) else y)


@move("rows")
def softmax_pieces(m: Make) -> None:
    x = m.pick_float(least=1)
    rank = len(m.shape(x))
    axis = m.choose(-1, -1, m.int(0, rank - 1))
    other = axis if m.maybe(0.85) else m.int(0, rank - 1)
    keep = int(m.maybe(0.9))
    shifted = m.op("Sub", x, m.op("ReduceMax", x, m.ints(axis), keepdims=keep))
    e = m.op("Exp", shifted)
    total = m.op("ReduceSum", e, m.ints(other), keepdims=keep)
    if m.maybe(0.1):
        m.keep(e)
    m.keep(
        m.choose(
            lambda: m.op("Div", e, total),
            lambda: m.op("Mul", m.op("Reciprocal", total), e),
            lambda: m.op("Sub", shifted, m.op("Log", total)),
        )()
    )


@move("rows", "rows", "any")
def norm_pieces(m: Make) -> None:
    """LayerNormalization or RMSNormalization in pieces, with scale and shift."""
    x = m.pick_float(least=1)
    axes = axes_of(m, len(m.shape(x)))
    keep = int(m.maybe(0.92))
    centred, mean = x, None
    if m.maybe(0.7):
        mean = m.op("ReduceMean", x, m.ints(*axes), keepdims=keep)
        centred = m.op("Sub", x, mean)
    square = m.op("Pow", centred, number(m, x, near(m, 2.0))) if m.maybe(0.5) else m.op("Mul", centred, centred)
    second = axes if m.maybe(0.9) else axes_of(m, len(m.shape(x)))
    variance = m.op("ReduceMean", square, m.ints(*second), keepdims=keep)
    shifted = m.op("Add", variance, number(m, x, m.choose(1e-5, 1e-3)))
    gamma = m.const(along(m, m.shape(x), len(m.shape(x)) - 1), m.dtype(x))
    if mean is not None and m.maybe(0.2):
        rstd = m.op("Mul", m.op("Reciprocal", m.op("Sqrt", shifted)), gamma)
        beta = m.const(m.array(m.shape(x)[-1:]), m.dtype(x))
        m.keep(m.op("Add", m.op("Mul", x, rstd), m.op("Sub", beta, m.op("Mul", mean, rstd))))
        return
    y = m.choose(
        lambda: m.op("Div", centred, m.op("Sqrt", shifted)),
        lambda: m.op("Mul", centred, m.op("Reciprocal", m.op("Sqrt", shifted))),
        lambda: m.op("Mul", centred, m.op("Pow", shifted, number(m, x, -0.5))),
        lambda: m.op("Div", centred, m.op("Pow", shifted, number(m, x, 0.5))),
    )()
    if m.maybe(0.1):
        m.keep(centred, shifted)
    if m.maybe(0.7):
        y = m.op("Mul", *m.choose((y, gamma), (gamma, y)))
    if m.maybe(0.6):
        y = m.op("Add", y, m.const(along(m, m.shape(y), len(m.shape(y)) - 1), m.dtype(x)))
    m.keep(y)


@move("rows", "any")
def norm(m: Make) -> None:
    x = m.pick_float(least=1)
    if m.maybe(0.4):
        x = m.op("Add", x, m.like(x))
        m.keep(x)
    rank = len(m.shape(x))
    axis = m.choose(-1, -1, m.int(0, rank - 1))
    dims = m.shape(x)[axis:] if axis != -1 else m.shape(x)[-1:]
    scale, shift = m.const(m.array(m.choose(dims, dims, ())), m.dtype(x)), m.const(m.array(dims), m.dtype(x))
    y = m.choose(
        lambda: m.op("LayerNormalization", x, scale, shift, axis=axis),
        lambda: m.op("LayerNormalization", x, scale, axis=axis),
        lambda: m.op("RMSNormalization", x, scale, axis=axis),
        lambda: m.op("LpNormalization", x, axis=axis, p=m.choose(1, 2)),
        lambda: m.op("MeanVarianceNormalization", x, axes=[i for i in range(rank) if i != 1]),
    )()
    m.keep(arithmetic(m, y) if m.maybe(0.4) else y)


def dense(m: Make, x: Value, columns: int | None = None) -> Value:
    """A product with a constant matrix on either side, with or without what follows it."""
    shape = m.shape(x)
    columns = columns or m.choose(1, 3, 4, 8, 16, 19)
    dtype = m.dtype(x)
    if len(shape) == 2 and m.maybe(0.4):
        a, b = m.int(0, 1), m.int(0, 1)
        inner = shape[0] if a else shape[1]
        weight = scaled(m.array((columns, inner) if b else (inner, columns)))
        attrs: dict[str, object] = {"transA": a, "transB": b}
        if m.maybe(0.3):
            attrs |= {"alpha": m.choose(0.5, 1.0, 0.0), "beta": m.choose(2.0, 0.0, 1.0)}
        rows = shape[1] if a else shape[0]
        bias = m.choose(None, (columns,), (rows, 1), (1,), (), (rows, columns), (1, columns))
        third = [] if bias is None else [m.const(m.array(bias), dtype)]
        return m.op("Gemm", x, m.const(weight, dtype), *third, **attrs)
    if m.maybe(0.15):
        return m.op("MatMul", m.const(scaled(m.array((columns, shape[-2] if len(shape) > 1 else shape[0]))), dtype), x)
    if m.maybe(0.1):
        return m.op("MatMul", x, m.const(m.array((shape[-1],)), dtype))
    weight = scaled(m.array((shape[-1], columns))) if m.maybe(0.85) else m.array((m.int(1, 2), shape[-1], columns))
    return m.op("MatMul", x, m.const(weight, dtype))


@move("rows", "rows", "any")
def product(m: Make) -> None:
    x = m.pick_float(least=1)
    if m.maybe(0.25):
        x = m.choose(arithmetic, transpose)(m, x)
    y = dense(m, x)
    for _ in range(m.int(0, 3)):
        y = m.choose(arithmetic, arithmetic, activation, batch_norm if len(m.shape(y)) == 2 else arithmetic)(m, y)
    if m.maybe(0.3):
        with_residual = [v for v in m.pool if v.type == y.type]
        y = m.op("Add", y, with_residual[-1]) if with_residual else y
    m.keep(y)


@move("rows")
def two_tensors_product(m: Make) -> None:
    a = m.pick_float(least=1)
    b = m.pick(lambda v: v.dtype == a.dtype and len(m.shape(v)) >= 1, recent=0.3)
    if m.maybe(0.5) and len(m.shape(b)) > 1:
        rank = len(m.shape(b))
        b = m.op("Transpose", b, perm=[*range(rank - 2), rank - 1, rank - 2] if m.maybe(0.8) else list(range(rank)))
    m.keep(m.op("MatMul", a, b))


@move("rows", "rows")
def attention(m: Make) -> None:
    x = m.pick_float(3)
    batch, length, width = m.shape(x)
    heads = m.choose(*[h for h in (1, 2, 3, 4) if width % h == 0])
    size = width // heads if width else 1
    parts = []
    for _ in range(3):
        y = dense(m, x, heads * size) if m.maybe(0.5) else m.op("MatMul", x, m.const(scaled(m.array((width, width)))))
        if m.shape(y) != (batch, length, heads * size):
            raise Skip("no heads")
        if m.maybe(0.5):
            y = m.op("Add", y, m.const(m.array((heads * size,)), m.dtype(x)))
        parts.append(m.op("Reshape", y, m.ints(batch, length, heads, size)))
    q = m.op("Transpose", parts[0], perm=[0, 2, 1, 3])
    if m.maybe(0.5):
        k = m.op("Transpose", parts[1], perm=[0, 2, 3, 1])
    else:
        k = m.op("Transpose", m.op("Transpose", parts[1], perm=[0, 2, 1, 3]), perm=[0, 1, 3, 2])
    v = m.op("Transpose", parts[2], perm=[0, 2, 1, 3])
    scale = number(m, x, m.choose(0.5, 1 / math.sqrt(max(size, 1))))
    if m.maybe(0.2):
        q = m.op("Mul", q, scale)
    scores = m.op("MatMul", q, k)
    if m.maybe(0.7):
        scores = m.op("Mul", scores, scale) if m.maybe(0.5) else m.op("Div", scores, number(m, x, 2.0))
    scores = masked(m, scores)
    weights = m.op("Softmax", scores, axis=m.choose(-1, -1, -1, 3, 2, 1))
    if m.maybe(0.1):
        m.keep(weights)
    y = m.op("MatMul", weights, v)
    y = m.op("Transpose", y, perm=[0, 2, 1, 3])
    m.keep(m.op("Reshape", y, m.ints(batch, length, heads * size)))


def masked(m: Make, scores: Value) -> Value:
    b, h, q, k = m.shape(scores)
    if m.maybe(0.3):
        return scores
    shape = m.choose((1, 1, 1, k), (b, 1, 1, k), (1, 1, q, k), (q, k), (k,), (1, 1, q, 1), (b, h, q, k), (1, h, 1, 1))
    if m.maybe(0.5):
        mask = np.where(m.array(shape) > 0.5, np.float32(-1e4), np.float32(0))
        given = m.const(mask, m.dtype(scores)) if m.maybe(0.5) else m.input(mask.astype(m.dtype(scores)), "mask")
        return m.op("Add", *m.choose((scores, given), (given, scores)))
    keep = m.const(m.array(shape, np.dtype(bool)), np.dtype(bool))
    low = m.const(-1e4, m.dtype(scores))
    return m.op("Where", keep, scores, low) if m.maybe(0.5) else m.op("Where", keep, low, scores)


@move("rows")
def attention_op(m: Make) -> None:
    x = m.pick_float(4)
    k = m.choose(lambda: x, lambda: m.like(x))()
    mask = [m.const(m.array((m.shape(x)[2], m.shape(k)[2])), m.dtype(x))] if m.maybe(0.4) else []
    m.keep(m.op("Attention", x, k, k, *mask, is_causal=int(m.maybe(0.3))))


@move("rows")
def flattened_product(m: Make) -> None:
    """A product of rank three through matrices."""
    x = m.pick_float(least=3)
    shape = m.shape(x)
    rows = math.prod(shape[:-1])
    flat = m.op("Reshape", x, m.ints(-1 if math.prod(shape) and m.maybe(0.5) else rows, shape[-1]))
    y = dense(m, flat, 4)
    if m.shape(y) != (rows, 4):
        raise Skip("turned")
    if m.maybe(0.5):
        y = m.choose(arithmetic, activation)(m, y)
    if m.shape(y) != (rows, 4):
        raise Skip("enlarged")
    m.keep(m.op("Reshape", y, m.ints(*m.choose((*shape[:-1], 4), (shape[1], shape[0], *shape[2:-1], 4)))))


@move("rows")
def einsum(m: Make) -> None:
    x = m.pick_float(3)
    y = m.like(x) if m.maybe(0.5) else x
    m.keep(m.op("Einsum", x, y, equation=m.choose("bij,bkj->bik", "bij,bij->bi", "bij,cij->bc", "bij,bij->b")))


@move("rows")
def recurrent(m: Make) -> None:
    x = m.pick_float(3)
    hidden, width = m.choose(1, 3, 8), m.shape(x)[2]
    op, gates = m.choose(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    both = m.int(1, 2)
    attrs: dict[str, object] = {
        "hidden_size": hidden,
        "direction": "bidirectional" if both == 2 else m.choose("forward", "reverse"),
    }
    if op == "GRU":
        attrs["linear_before_reset"] = m.int(0, 1)
    w = m.const(scaled(m.array((both, gates * hidden, width))), m.dtype(x))
    r = m.const(scaled(m.array((both, gates * hidden, hidden))), m.dtype(x))
    b = [m.const(m.array((both, 2 * gates * hidden)), m.dtype(x))] if m.maybe(0.6) else []
    m.keep(*m.ops(op, x, w, r, *b, outputs=m.choose(1, 2), **attrs))
