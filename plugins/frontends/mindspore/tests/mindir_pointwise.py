"""Networks of a few pointwise primitives each, mostly as functions of mindspore.ops."""

from __future__ import annotations

import numpy as np
from mindspore import nn, ops

from plugins.frontends.mindspore.tests.mindir_nets import cell, floats, ints, net


def unary(x, p):
    return (
        ops.abs(x),
        ops.ceil(x),
        ops.floor(x),
        ops.neg(x),
        ops.sign(x),
        ops.square(x),
        ops.exp(x),
        ops.erf(x),
        ops.sin(x),
        ops.cos(x),
        ops.tan(x),
        ops.tanh(x),
        ops.sigmoid(x),
        ops.atan(x),
        ops.asinh(x),
        ops.round(x),
        ops.log(p),
        ops.log1p(p),
        ops.sqrt(p),
        ops.rsqrt(p),
        ops.reciprocal(p),
        ops.trunc(x),
        ops.expm1(x),
        ops.isnan(x),
        ops.isfinite(x),
        ops.erfc(x),
        ops.sinh(x),
        ops.cosh(x),
        ops.log2(p),
        ops.log10(p),
        ops.frac(x),
    )


net(unary, floats(3, 4), np.abs(floats(3, 4)) + 0.5)


def activations(x, w):
    return (
        ops.relu(x),
        ops.relu6(x),
        ops.leaky_relu(x, 0.1),
        ops.gelu(x),
        ops.gelu(x, approximate="tanh"),
        ops.hardswish(x),
        ops.hardsigmoid(x),
        ops.silu(x),
        ops.mish(x),
        ops.selu(x),
        ops.elu(x),
        ops.celu(x, 0.7),
        ops.softsign(x),
        ops.hardshrink(x),
        ops.softshrink(x),
        ops.logsigmoid(x),
        ops.softmax(x, 1),
        ops.log_softmax(x, -1),
        ops.prelu(x, w),
        ops.relu(x * 8),
        ops.relu6(x * 8),
        ops.hardtanh(x, -0.5, 0.7),
        ops.tanhshrink(x),
        ops.glu(x, 1),
        ops.softmin(x, axis=0),
        ops.threshold(x, 0.2, -3.0),
    )


net(activations, floats(2, 6, 3), np.abs(floats(6)))


class Activations(nn.Cell):
    """The layers of mindspore.nn."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList(
            [
                nn.ReLU(),
                nn.ReLU6(),
                nn.LeakyReLU(),
                nn.GELU(),
                nn.GELU(approximate=False),
                nn.FastGelu(),
                nn.HSwish(),
                nn.HSigmoid(),
                nn.SiLU(),
                nn.Mish(),
                nn.SeLU(),
                nn.ELU(),
                nn.CELU(),
                nn.Softsign(),
                nn.HShrink(),
                nn.SoftShrink(),
                nn.LogSigmoid(),
                nn.Softmax(),
                nn.LogSoftmax(),
                nn.PReLU(6),
                nn.Tanh(),
                nn.Sigmoid(),
                nn.Hardtanh(),
                nn.Tanhshrink(),
                nn.Threshold(0.1, 2.0),
            ]
        )

    def construct(self, x):
        results = []
        for layer in self.layers:
            results.append(layer(x))
        return tuple(results)


cell("nn_activations", Activations, floats(2, 6, 3, 2))


def arithmetic(x, y, i, j):
    return (
        x + y,
        x - y,
        x * y,
        x / y,
        x % y,
        x // y,
        ops.pow(ops.abs(x), y),
        ops.maximum(x, y),
        ops.minimum(x, y),
        i + j,
        i - j,
        i * j,
        i / j,
        i // j,
        i % j,
        ops.maximum(i, j),
        x + i,
        i * x,
        x * 2,
        2 - x,
        x / 3,
        i * 2,
        i * 2.5,
        i / 2,
        ops.floor_mod(i, j),
        ops.fmod(x, y),
        ops.fmod(i, j),
        ops.truncate_div(i, j),
        ops.truncate_mod(i, j),
        ops.div(x, y, rounding_mode="floor"),
        ops.div(x, y, rounding_mode="trunc"),
        ops.addn([x, x * y, x]),
        ops.square(x - y),
        ops.lerp(x, y, 0.3),
        ops.addcmul(x, y, y, 2.0),
        ops.clamp(x, -0.5, 0.5),
        ops.clamp(x, max=0.1),
        ops.xlogy(x, ops.abs(y)),
        -i,
        ops.abs(i),
        i // 3,
        i % 3,
        ops.bitwise_and(i, j),
        ops.bitwise_or(i, j),
        i - 2,
    )


net(arithmetic, floats(2, 3), floats(3) + 2.5, ints(2, 3), np.array([3, -2, 5], np.int32))


def promotions(i8, u8, i64, f16, b):
    return (
        i8 + u8,
        i8 + i64,
        f16 + i64,
        b + i64,
        i8 * 2,
        f16 * 2.5,
        b * 2,
        u8 + 1,
        i64 / i64,
        f16 / 2,
        i8 > u8,
        b == b,
        i64 > f16,
        f16 == 1,
        i64 * f16,
        ops.cast(f16, i8.dtype),
        ops.cast(i64, f16.dtype),
        b.astype(f16.dtype),
    )


net(
    promotions,
    ints(4, dtype=np.int8),
    ints(4, low=0, dtype=np.uint8),
    ints(4, low=1, dtype=np.int64),
    floats(4).astype(np.float16),
    np.array([True, False, True, True]),
)


def comparisons(x, y, i, b, c):
    return (
        x == y,
        x != y,
        x < y,
        x <= y,
        x > y,
        x >= y,
        x > 0,
        i < 2,
        i == 3,
        i >= 1.5,
        ops.logical_and(b, c),
        ops.logical_or(b, c),
        ops.logical_not(b),
        ops.logical_xor(b, c),
        ops.select(b, x, y),
        ops.where(x > y, x, y),
        ops.masked_fill(x, b, -7.0),
        ops.isclose(x, y),
        ops.where(b, x, 1.0),
    )


net(comparisons, floats(2, 3), floats(2, 3), ints(2, 3), floats(2, 3) > 0, floats(2, 3) > 0)
