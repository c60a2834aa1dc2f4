"""Networks of a few primitives each that bring elements together: reductions, products, statistics, resampling."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, mint, nn, ops

from plugins.frontends.mindspore.tests.mindir_nets import cell, floats, net


def reductions(x, b):
    return (
        ops.mean(x),
        ops.mean(x, 1),
        ops.mean(x, (1, 2), True),
        ops.sum(x, 0),
        ops.sum(x),
        ops.max(x)[0],
        ops.amax(x, 1),
        ops.amin(x, (0, 2), True),
        ops.prod(x, 1),
        ops.all(b, 1),
        ops.any(b, 0, True),
        x.sum(axis=1),
        x.mean(axis=-1),
        x.max(axis=1),
        x.min(),
        ops.std(x, 1),
        ops.var(x, 1),
        ops.norm(x, dim=1),
        ops.norm(x, 1, dim=1),
        ops.cumsum(x, 1),
        ops.logsumexp(x, 1, True),
        ops.var_mean(x, 1, 1)[0],
        ops.std_mean(x, (0, 1), 0, True)[1],
        x.var(axis=1),
        x.std(axis=1),
        ops.count_nonzero(x, 1),
    )


net(reductions, floats(2, 3, 4), floats(2, 3) > 0)


def resampling(x, grid):
    return (
        ops.interpolate(x, size=(8, 7), mode="nearest"),
        ops.interpolate(x, size=(8, 7), mode="bilinear", align_corners=False),
        ops.interpolate(x, size=(8, 7), mode="bilinear", align_corners=True),
        ops.interpolate(x, scale_factor=(2.0, 3.0), mode="nearest", recompute_scale_factor=True),
        ops.grid_sample(x, grid),
        ops.grid_sample(x, grid, padding_mode="border", align_corners=True),
        ops.interpolate(x, size=(3, 2), mode="area"),
        ops.pixel_shuffle(ops.tile(x, (1, 2, 1, 1)), 2),
        ops.ResizeNearestNeighbor((6, 9), True)(x),
    )


net(resampling, floats(1, 2, 4, 5), np.clip(floats(1, 3, 3, 2), -1.2, 1.2))


def matrices(a, b, s, v):
    return (
        ops.matmul(a, b),
        ops.matmul(s, b),
        ops.bmm(s, ops.tile(ops.expand_dims(b, 0), (2, 1, 1))),
        ops.MatMul(True, False)(a.T, b),
        ops.MatMul(False, True)(a, b.T),
        ops.BatchMatMul(False, True)(s, s),
        ops.BatchMatMul(True, False)(s, s),
        ops.matmul(s, v),
        ops.dense(s, b.T, b[0]),
        ops.addmm(a @ b, a, b, beta=0.5, alpha=2.0),
        ops.baddbmm(s @ b, s, ops.tile(ops.expand_dims(b, 0), (2, 1, 1))),
        ops.outer(v, v),
        a @ b,
    )


net(matrices, floats(3, 4), floats(4, 5), floats(2, 3, 4), floats(4))


def lp(x):
    return (
        ops.L2Normalize(1, 1e-4)(x),
        ops.LRN(2, 1.0, 0.01, 0.7)(x),
        ops.LpNorm([1], 2, True)(x),
        ops.LpNorm([0, 2], 1)(x),
    )


net(lp, floats(2, 6, 3, 3))


def pairs(x, y):
    return ops.atan2(x, y), ops.hypot(x, y), ops.logaddexp(x, y), ops.logaddexp(x, x), ops.heaviside(x, y)


net(pairs, floats(4), floats(4))


def extremes(x):
    return (
        ops.maximum(x, float("-inf")),
        x + float("inf"),
        x * float("nan"),
        x / 0.0,
        x * 1e-30,
        ops.nan_to_num(x / 0.0),
    )


net(extremes, floats(2, 3))


def statistics(x, scale, bias):
    return ops.LayerNorm(1, 1, 1e-5)(x, scale, bias), ops.cumprod(x, 1), ops.trace(x), ops.softplus(x), ops.diag(scale)


net(statistics, floats(3, 3), floats(3), floats(3))


def products(x):
    return (
        ops.CumProd(True, False)(x, 1),
        ops.CumProd(False, True)(x, 0),
        ops.CumProd(True, True)(x, -1),
        ops.CumProd(True, True)(x[:1], 0),
        ops.L2Loss()(x),
    )


net(products, floats(3, 4))


# What follows MindSpore exports, but has no kernel for on a CPU: it is compared with the same said otherwise.


def mint_layers(x, w, b, scale):
    f = mint.nn.functional
    return (
        f.conv2d(x, w, b, 2, 1),
        f.layer_norm(x, (5, 4), None, None),
        f.max_pool2d(x, 3, 2, 1),
        mint.roll(x, 1, 2),
        f.conv2d(x, w, None, 1, (0, 2), 2),
        f.rms_norm(x, scale) if hasattr(f, "rms_norm") else x,
    )


def _mint_layers(x, w, b, scale):
    x, w, b, scale = (Tensor(a) for a in (x, w, b, scale))
    mean, var = ops.mean(x, (2, 3), True), ops.mean((x - ops.mean(x, (2, 3), True)) ** 2, (2, 3), True)
    return (
        ops.conv2d(x, w, b, 2, "pad", 1),
        (x - mean) / ops.sqrt(var + 1e-5),
        nn.MaxPool2d(3, 2, "pad", 1)(x),
        Tensor(np.roll(x.asnumpy(), 1, 2)),
        ops.conv2d(x, w, None, 1, "pad", (0, 2), 2),
        x,
    )


net(mint_layers, floats(2, 3, 5, 4), floats(6, 3, 3, 3), floats(6), floats(4), expected=_mint_layers)


def sums(a, b, c):
    return (
        ops.einsum("bij,bjk->bik", a, b),
        ops.einsum("bij->ji", a),
        ops.rms_norm(a, c)[0],
        ops.einsum("i,j->ij", c, c),
    )


def _sums(a, b, c):
    norm = a / np.sqrt((a**2).mean(-1, keepdims=True) + 1e-6) * c
    return np.einsum("bij,bjk->bik", a, b), np.einsum("bij->ji", a), norm, np.outer(c, c)


net(sums, floats(2, 3, 4), floats(2, 4, 5), floats(4), expected=_sums)


class InstanceNorm(nn.Cell):
    """By the statistics of each image, in inference too."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(3, affine=False)

    def construct(self, x):
        return self.norm(x)

    def expected(self, x):
        centred = x - x.mean((2, 3), keepdims=True)
        scale, bias = (p.asnumpy()[:, None, None] for p in (self.norm.gamma, self.norm.beta))
        return (centred / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5) * scale + bias,)


cell("instance_norm", InstanceNorm, floats(2, 3, 5, 4))
