"""Moves that move: transposes, reshapes, slices, pieces and their concatenation.

A spelling comes with its near-misses: another constant, another axis, a factor that enlarges.
"""

from __future__ import annotations

import math

import numpy as np

from autofusion.ir.graph import Value
from tests.fuzz.fuzz_make import I64, Make, Skip
from tests.fuzz.fuzz_moves import move
from tests.fuzz.fuzz_operators import reduce_keep, softmax_op, transpose
from tests.fuzz.fuzz_pointwise import activation, arithmetic, unary


@move("movement", "image", "rows")
def transposing(m: Make) -> None:
    x = m.pick_float(least=1)
    y = transpose(m, x)
    for _ in range(m.int(0, 2)):
        y = m.choose(arithmetic, activation, unary, softmax_op, reduce_keep)(m, y)
    if m.maybe(0.4):
        y = transpose(m, y)
    if m.maybe(0.2):
        inverse = np.argsort(y.producer.attrs["perm"]).tolist() if y.producer and "perm" in y.producer.attrs else None
        y = m.op("Transpose", y, perm=inverse) if inverse is not None else y
    m.keep(y)


@move("movement", "movement", "rows")
def reshaping(m: Make) -> None:
    x = m.pick(lambda v: True)
    shape = m.shape(x)
    size = math.prod(shape)
    target = list(shape)
    for _ in range(m.int(1, 3)):
        kind = m.choose("merge", "split", "one", "zero", "free")
        if kind == "merge" and len(target) > 1:
            at = m.int(0, len(target) - 2)
            target[at : at + 2] = [target[at] * target[at + 1]]
        elif kind == "split" and target:
            at = m.int(0, len(target) - 1)
            factors = [f for f in range(1, target[at] + 1) if target[at] % f == 0] or [1]
            f = m.choose(*factors)
            target[at : at + 1] = [f, target[at] // f] if target[at] else [1, 0]
        elif kind == "one":
            target.insert(m.int(0, len(target)), 1)
    attrs = {"allowzero": 1} if m.maybe(0.1) else {}
    wanted = list(target)
    if size and not attrs:
        for i in range(min(len(wanted), len(shape))):
            if wanted[i] == shape[i] and m.maybe(0.3):
                wanted[i] = 0
        if m.maybe(0.3) and wanted:
            wanted[m.int(0, len(wanted) - 1)] = -1
    y = m.op("Reshape", x, m.ints(*wanted), **attrs)
    if m.maybe(0.5) and m.is_float(y):
        y = m.choose(arithmetic, activation, unary)(m, y)
    if m.maybe(0.3):
        y = m.op("Reshape", y, m.ints(*shape))
    m.keep(y)


@move("movement")
def squeezing(m: Make) -> None:
    x = m.pick(lambda v: True)
    rank = len(m.shape(x))
    ones = [i for i, d in enumerate(m.shape(x)) if d == 1]
    if ones and m.maybe(0.5):
        axes = [a for a in ones if m.maybe(0.6)] or ones[:1]
        y = m.op("Squeeze", x, m.ints(*[a - rank if m.maybe(0.4) else a for a in axes]))
    else:
        y = m.op("Unsqueeze", x, m.ints(*m.choose([0], [-1], [m.int(0, rank)], [0, -1])))
    if m.maybe(0.4) and m.is_float(y):
        y = m.choose(arithmetic, unary)(m, y)
    m.keep(y)


@move("movement")
def flattening(m: Make) -> None:
    x = m.pick(lambda v: True)
    m.keep(m.op("Flatten", x, axis=m.int(-len(m.shape(x)), len(m.shape(x)))))


@move("movement", "image", "rows")
def slicing(m: Make) -> None:
    x = m.pick(lambda v: len(m.shape(v)) >= 1)
    rank = len(m.shape(x))
    axes = sorted({m.int(0, rank - 1) for _ in range(m.int(1, 2))})
    starts, ends, steps = [], [], []
    for axis in axes:
        size = m.shape(x)[axis]
        step = m.choose(1, 1, 1, 2, -1, -2)
        starts.append(m.choose(0, m.int(-size - 1, size + 1)) if step > 0 else m.choose(-1, m.int(-size - 1, size + 1)))
        ends.append(
            m.choose(1 << 40, m.int(-size - 1, size + 1)) if step > 0 else m.choose(-(1 << 40), m.int(-size, size))
        )
        steps.append(step)
    operands = [m.ints(*starts), m.ints(*ends), m.ints(*[a - rank if m.maybe(0.4) else a for a in axes])]
    if any(s != 1 for s in steps) or m.maybe(0.3):
        operands.append(m.ints(*steps))
    m.keep(m.op("Slice", x, *operands))


@move("movement", "image", "rows")
def splitting(m: Make) -> None:
    x = m.pick(lambda v: len(m.shape(v)) >= 1)
    rank = len(m.shape(x))
    axis = m.int(0, rank - 1)
    size = m.shape(x)[axis]
    first = m.int(0, size)
    if m.maybe(0.3):
        count = m.int(1, 3)
        values = m.ops("Split", x, outputs=count, axis=axis - rank, num_outputs=count)
    else:
        second = m.int(0, size - first)
        values = m.ops("Split", x, m.ints(first, second, size - first - second), outputs=3, axis=axis)
    for value in values:
        if m.maybe(0.7):
            m.keep(m.choose(arithmetic, activation)(m, value) if m.is_float(value) and m.maybe(0.3) else value)


@move("movement", "movement", "image", "rows")
def concatenating(m: Make) -> None:
    x = m.pick(lambda v: len(m.shape(v)) >= 1)
    rank = len(m.shape(x))
    axis = m.choose(min(1, rank - 1), m.int(0, rank - 1))

    def fits(v: Value) -> bool:
        shape = m.shape(v)
        return (
            v.dtype == x.dtype
            and len(shape) == rank
            and all(a == b or i == axis for i, (a, b) in enumerate(zip(shape, m.shape(x), strict=True)))
        )

    parts = [x, *(m.pick(fits, recent=0.4) for _ in range(m.int(0, 2)))]
    if m.maybe(0.2):
        dims = list(m.shape(x))
        dims[axis] = m.int(0, 3)
        parts.append(m.const(m.array(dims, m.dtype(x)), m.dtype(x)))
    m.rng.shuffle(parts)  # type: ignore[arg-type]
    m.keep(m.op("Concat", *parts, axis=m.choose(axis, axis - rank)))


@move("movement")
def expanding(m: Make) -> None:
    x = m.pick(lambda v: len(m.shape(v)) <= 4)
    shape = [m.int(2, 3) if d == 1 and m.maybe(0.5) else m.choose(d, 1) for d in m.shape(x)]
    if m.maybe(0.3):
        shape.insert(0, m.int(1, 2))
    y = m.op("Expand", x, m.ints(*shape))
    m.keep(y)
    if m.maybe(0.5) and m.is_float(x):
        other = m.pick(lambda v: v.dtype == x.dtype and m.shape(v) == m.shape(y))
        m.keep(m.op("Mul", other, y))


@move("movement")
def tiling(m: Make) -> None:
    x = m.pick(lambda v: True)
    m.keep(m.op("Tile", x, m.ints(*[m.choose(1, 1, 2, 0 if m.maybe(0.1) else 1) for _ in m.shape(x)])))


@move("movement", "rows")
def gathering(m: Make) -> None:
    x = m.pick(lambda v: len(m.shape(v)) >= 1)
    rank = len(m.shape(x))
    axis = m.int(-rank, rank - 1)
    size = m.shape(x)[axis]
    if not size:
        raise Skip("empty")
    indices = m.rng.integers(-size, size, m.choose((), (1,), (3,), (2, 2), (0,)))
    m.keep(m.op("Gather", x, m.const(indices, I64, fixed=m.maybe(0.7)), axis=axis))


@move("movement")
def trilu(m: Make) -> None:
    x = m.pick(lambda v: len(m.shape(v)) >= 2)
    m.keep(m.op("Trilu", x, m.const(m.int(-2, 2), I64, fixed=True), upper=m.int(0, 1)))


@move("movement")
def scatter(m: Make) -> None:
    x = m.pick_float(least=1)
    size = m.shape(x)[0]
    if not size:
        raise Skip("empty")
    rows = m.rng.permutation(size)[: m.int(1, size)]
    updates = m.const(m.array((len(rows), *m.shape(x)[1:])), m.dtype(x))
    m.keep(
        m.op("ScatterND", x, m.const(rows.reshape(-1, 1), I64, fixed=True), updates, reduction=m.choose("none", "add"))
    )
