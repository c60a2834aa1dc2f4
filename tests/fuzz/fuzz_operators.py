"""Single operators with random attributes, for moves to put together."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from tests.fuzz.fuzz_make import Make, Skip


def batch_norm(m: Make, x: Value) -> Value:
    shape = m.shape(x)
    if len(shape) < 2:
        raise Skip("no channels")
    size, dtype = (shape[1],), m.dtype(x)
    scale, shift, mean = m.array(size), m.array(size), m.array(size)
    variance = np.abs(m.array(size)) + np.float32(m.choose(0.5, 0.5, 1e-6))
    attrs: dict[str, object] = {"epsilon": m.choose(1e-5, 1e-3)}
    operands = [m.const(a, dtype) for a in (scale, shift, mean, variance)]
    if m.maybe(0.06):
        return m.ops("BatchNormalization", x, *operands, outputs=m.choose(1, 3), training_mode=1, **attrs)[0]
    return m.op("BatchNormalization", x, *operands, **attrs)


def axes_of(m: Make, rank: int) -> list[int]:
    if m.maybe(0.6):
        count = m.int(1, min(2, rank))
        axes = list(range(rank - count, rank))
    else:
        axes = [a for a in range(rank) if m.maybe(0.5)] or [m.int(0, rank - 1)]
    return [a - rank if m.maybe(0.4) else a for a in axes]


REDUCTIONS = [f"Reduce{n}" for n in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()]


def reduce_keep(m: Make, x: Value, keep: int = 1) -> Value:
    return m.op(
        m.choose(*REDUCTIONS, "ReduceMean", "ReduceSum"), x, m.ints(*axes_of(m, len(m.shape(x)))), keepdims=keep
    )


def softmax_op(m: Make, x: Value) -> Value:
    rank = len(m.shape(x))
    if not rank:
        raise Skip("a number")
    return m.op(m.choose("Softmax", "Softmax", "LogSoftmax", "Hardmax"), x, axis=m.choose(-1, -1, m.int(0, rank - 1)))


def transpose(m: Make, x: Value) -> Value:
    rank = len(m.shape(x))
    if m.maybe(0.15):
        return m.op("Transpose", x)
    perm = [int(p) for p in m.rng.permutation(rank)]
    if rank == 4 and m.maybe(0.5):
        perm = m.choose([0, 2, 3, 1], [0, 3, 1, 2], [0, 2, 1, 3], [0, 1, 3, 2])
    return m.op("Transpose", x, perm=perm)
