"""Moves between element types, on shapes, and to sizes that only the data tells.

A spelling comes with its near-misses: another constant, another axis, a factor that enlarges.
"""

from __future__ import annotations

import math

import numpy as np

from tests.fuzz.fuzz_make import F32, I64, Make, Skip
from tests.fuzz.fuzz_moves import along, move, number


@move("types", "any", "movement")
def casting(m: Make) -> None:
    x = m.pick(lambda v: True)
    to = np.dtype(m.choose(np.int32, np.int64, np.float16, np.float64, np.bool_, np.int8, np.uint8))
    if m.dtype(x).kind == "f" and to.kind in "iu":
        if not np.isfinite(m.data[x]).all():
            raise Skip("undefined")
        x = m.op(
            "Clip",
            x,
            m.const(0.0 if to.kind == "u" else -100.0, m.dtype(x), fixed=True),
            m.const(100.0, m.dtype(x), fixed=True),
        )
    y = m.op("Cast", x, to=to)
    m.keep(y)
    if m.maybe(0.7):
        m.keep(m.op("Cast", y, to=F32))


@move("types")
def integers(m: Make) -> None:
    x = m.pick(lambda v: m.dtype(v).kind == "i")
    three = m.const(m.choose(3, -2, 1), m.dtype(x))
    m.keep(
        m.choose(
            lambda: m.op("Mul", m.op("Div", x, three), three),
            lambda: m.op("Add", x, m.const(m.choose(0, 1), m.dtype(x))),
            lambda: m.op("Mod", x, three),
            lambda: m.op("Sub", three, x),
            lambda: m.op(m.choose("Abs", "Neg", "Sign"), x),
            lambda: m.op(m.choose("Max", "Min"), x, three),
            lambda: m.op("ReduceSum", x, m.ints(0), keepdims=m.int(0, 1)),
            lambda: m.op("Clip", x, m.const(-1, m.dtype(x)), m.const(2, m.dtype(x))),
            lambda: m.op("Relu", x),
        )()
    )


@move("types", "any")
def truths(m: Make) -> None:
    x = m.pick_float()
    a = m.op(m.choose("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"), x, number(m, x, m.choose(0.0, 0.5)))
    b = m.choose(lambda: m.op("IsNaN", x), lambda: m.op("IsInf", x), lambda: m.op("Less", x, number(m, x, 1.0)))()
    y = m.choose(lambda: m.op(m.choose("And", "Or", "Xor", "Equal"), a, b), lambda: m.op("Not", a), lambda: a)()
    m.keep(y)
    m.keep(m.choose(lambda: m.op("Cast", y, to=m.dtype(x)), lambda: m.op("Where", y, x, m.op("Neg", x)))())


@move("types")
def selecting(m: Make) -> None:
    condition = m.pick(lambda v: m.dtype(v).kind == "b")
    x = m.pick_float()
    y = m.choose(lambda: m.const(along(m, m.shape(x)), m.dtype(x)), lambda: m.like(x))()
    m.keep(m.op("Where", condition, x, y))


@move("types")
def quantising(m: Make) -> None:
    x = m.pick(lambda v: v.dtype == F32)
    scale = m.const(m.choose(0.1, 0.03), fixed=True)
    kind = np.dtype(m.choose(np.int8, np.uint8))
    zero = m.const(m.choose(0, 3), kind, fixed=True)
    q = m.op("QuantizeLinear", x, scale, zero)
    m.keep(q)
    m.keep(m.op("DequantizeLinear", q, scale, zero))


@move("types")
def shapes(m: Make) -> None:
    """A target computed from a shape."""
    x = m.pick(lambda v: len(m.shape(v)) >= 1 and v.dtype == F32)
    rank = len(m.shape(x))
    shape = m.op("Shape", x)
    axis = m.int(0, rank - 1)
    part = m.op("Gather", shape, m.const(axis, I64, fixed=True), axis=0)
    row = m.op("Unsqueeze", part, m.ints(0))
    target = m.op("Concat", row, m.ints(-1), axis=0) if math.prod(m.shape(x)) else shape
    m.keep(m.op("Reshape", x, target))


@move("types")
def data_dependent(m: Make) -> None:
    """A result whose size only the data tells; summed or multiplied on."""
    x = m.pick(lambda v: v.dtype == F32 and len(m.shape(v)) in (1, 2) and math.prod(m.shape(v)) > 0)
    flat = m.op("Reshape", x, m.ints(-1))
    mask = m.op("Greater", flat, m.const(0.0))
    some = m.op("Compress", flat, mask, axis=0)
    y = m.op("Relu", m.op("Add", some, m.const(0.25)))
    y = m.op("Mul", y, m.op("Sigmoid", y))
    m.keep(m.op("ReduceSum", y, m.ints(0), keepdims=0))
