"""Rows G and H: pointwise regions, reductions, poolings, and movement."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion.testing.coverage.epilogues import silu
from autofusion.testing.coverage.net import Net, Variant, table
from autofusion.testing.coverage.norms import layer_norm

_F32, _I64, _I32 = (np.dtype(t) for t in (np.float32, np.int64, np.int32))


def _x(g: Net) -> Value:
    return g.x(2, 6, 8)


def _img(g: Net, channels: int = 8) -> Value:
    return g.x(1, channels, 8, 8)


def _resize(g: Net, x: Value, mode: str = "nearest") -> Value:
    attrs = {"mode": mode} | (
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if mode == "nearest" else {}
    )
    return g.Resize(x, None, g.k([1.0, 1.0, 2.0, 2.0]), **attrs)


def _max(g: Net, x: Value) -> Value:
    return g.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])


def _average(g: Net, x: Value) -> Value:
    return g.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2])


def _shuffled(g: Net, x: Value) -> Value:
    n, c, h, w = x.tensor.static_shape
    return g.view(g.t(g.view(x, n, 2, c // 2, h, w), 0, 2, 1, 3, 4), n, c, h, w)


def _pixels(g: Net, x: Value) -> Value:
    return g.DepthToSpace(x, blocksize=2, mode="CRD")


def _pixels_in_pieces(g: Net, x: Value) -> Value:
    n, c, h, w = x.tensor.static_shape
    return g.view(g.t(g.view(x, n, c // 4, 2, 2, h, w), 0, 1, 4, 2, 5, 3), n, c // 4, 2 * h, 2 * w)


def _corner(g: Net, x: Value, a: int, b: int, axes: tuple[int, int] = (2, 3), *, at_once: bool = True) -> Value:
    size = x.tensor.static_shape[axes[0]]
    if at_once:
        return g.Slice(x, g.i(a, b), g.i(size, size), g.i(*axes), g.i(2, 2))
    return g.cut(g.cut(x, axes[0], a, size, 2), axes[1], b, size, 2)


def _focus(g: Net, x: Value, *, at_once: bool = True) -> Value:
    return g.Concat(*[_corner(g, x, a, b, at_once=at_once) for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))], axis=1)


def _patches(g: Net) -> Value:
    x = g.x(1, 8, 8, 4)
    parts = [_corner(g, x, a, b, (1, 2)) for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))]
    return layer_norm(g, g.view(g.Concat(*parts, axis=-1), 1, 16, 16))


def _head(g: Net) -> Value:
    return g.Sigmoid(g.view(g.t(g.conv(_img(g), 12, 1), 0, 2, 3, 1), 1, -1, 6))


def _ssd(g: Net) -> Value:
    maps = [g.x(1, 8, size, size) for size in (4, 2)]
    return g.Concat(*[g.view(g.t(g.conv(x, 12), 0, 2, 3, 1), 1, -1, 6) for x in maps], axis=1)


def _yolo(g: Net) -> Value:
    y = g.t(g.view(g.conv(_img(g), 14, 1), 1, 2, 7, 8, 8), 0, 1, 3, 4, 2)
    return g.Sigmoid(y)


def _gathers(g: Net) -> list[Value]:
    x = g.t(g.view(g.x(1, 6, 24), 1, 6, 3, 2, 4), 2, 0, 3, 1, 4)
    q, k, v = (g.Gather(x, g.k(n, _I64), axis=0) for n in range(3))
    return [g.MatMul(g.Softmax(g.MatMul(q, g.t(k, 0, 1, 3, 2))), v)]


def _halves(g: Net, axis: int = 1) -> list[Value]:
    x = g.conv(_img(g))
    return [g.Relu(g.cut(x, axis, 0, 4)), g.Sigmoid(g.cut(x, axis, 4, 8))]


def _nhwc(g: Net) -> Value:
    y = g.Relu(g.t(g.conv(g.t(g.x(1, 8, 8, 4), 0, 3, 1, 2)), 0, 2, 3, 1))
    return g.t(g.conv(g.t(y, 0, 3, 1, 2)), 0, 2, 3, 1)


def _mask(g: Net) -> Value:
    return g.Mul(g.Sub(1.0, g.Cast(g.x(2, 1, 1, 8, dtype=_I64), to=_F32)), -10000.0)


def _two(g: Net) -> list[Value]:
    a = g.Tanh(g.Add(_x(g), 1.0))
    return [g.Mul(a, 2.0), g.Exp(a)]


def _long(g: Net, length: int) -> Value:
    y = _x(g)
    for index in range(length):
        y = g.Relu(y) if index % 2 else g.Sub(y, _x(g) if index == 4 else 0.125)
    return y


VARIANTS: list[Variant] = [
    *table(
        "G53 eltwise_chain",
        three=(1, lambda g: g.Mul(g.Sigmoid(g.Add(_x(g), _x(g))), _x(g))),
        broadcast=(1, lambda g: g.Mul(g.Add(_x(g), g.x(8)), g.x(2, 1, 8))),
        where=(1, lambda g: g.Where(g.Greater(_x(g), _x(g)), g.Exp(_x(g)), _x(g))),
        two_outputs=(1, _two),
        intermediate_output=(1, lambda g: (lambda a: [a, g.Sqrt(g.Abs(a))])(g.Exp(_x(g)))),
        cast_int32=(1, lambda g: g.Mul(g.Cast(g.Cast(g.Mul(_x(g), 4.0), to=_I32), to=_F32), 0.25)),
        mask_int64=(1, _mask),
        comparisons=(1, lambda g: g.Cast(g.And(g.Greater(_x(g), 0.0), g.Less(_x(g), 1.0)), to=_F32)),
        long=(1, lambda g: _long(g, 60)),
    ),
    *table(
        "G54 reduce_epilogue",
        mean_relu_mul=(1, lambda g: g.Mul(g.Relu(g.mean(_x(g))), 2.0)),
        square_mean_sqrt=(1, lambda g: g.Sqrt(g.mean(g.Mul(_x(g), 0.5)))),
        spatial_sigmoid=(1, lambda g: g.Sigmoid(g.mean(_img(g), 2, 3))),
        no_keepdims=(1, lambda g: g.Sigmoid(g.mean(_x(g), keepdims=0))),
        spatial_no_keepdims=(1, lambda g: g.Relu(g.mean(g.Exp(_img(g)), 2, 3, keepdims=0))),
        exp_sum=(1, lambda g: g.Log(g.sum(g.Exp(_x(g))))),
        distance=(1, lambda g: g.Sqrt(g.sum(g.Pow(g.Sub(_x(g), _x(g)), 2.0)))),
    ),
    *table(
        "G55 interpolate_epilogue",
        nearest_relu=(1, lambda g: g.Relu(_resize(g, _img(g)))),
        linear_relu=(1, lambda g: g.Relu(_resize(g, _img(g), "linear"))),
        nearest_add=(1, lambda g: g.Add(_resize(g, g.x(1, 8, 4, 4)), _img(g))),
        conv_nearest_add=(2, lambda g: g.Add(_resize(g, g.conv(g.x(1, 8, 4, 4))), _img(g))),
        sigmoid_before=(1, lambda g: _resize(g, g.Sigmoid(_img(g)), "linear")),
    ),
    *table(
        "G56 pool_epilogue",
        average_relu=(1, lambda g: g.Relu(_average(g, _img(g)))),
        max_scale_add=(1, lambda g: g.Add(g.Mul(_max(g, _img(g)), 0.5), 1.0)),
        max_bn_relu=(1, lambda g: g.Relu(g.bn(_max(g, _img(g))))),
        relu_max=(1, lambda g: _max(g, g.Relu(_img(g)))),
        relu_average=(1, lambda g: _average(g, g.Relu(g.bn(_img(g))))),
        global_sigmoid=(1, lambda g: g.Sigmoid(g.GlobalAveragePool(_img(g)))),
        global_max_relu=(1, lambda g: g.Relu(g.GlobalMaxPool(_img(g)))),
        difference=(1, lambda g: (lambda x: g.Sub(g.AveragePool(x, kernel_shape=[3, 3], pads=[1] * 4), x))(_img(g))),
    ),
    *table(
        "H57 transpose_cancel",
        relu=(1, lambda g: g.t(g.Relu(g.t(_img(g), 0, 2, 3, 1)), 0, 3, 1, 2)),
        add=(1, lambda g: g.t(g.Add(g.t(_img(g), 0, 2, 3, 1), g.w(8)), 0, 3, 1, 2)),
        pair=(0, lambda g: g.t(g.t(_img(g), 0, 2, 3, 1), 0, 3, 1, 2)),
        conv_nhwc=(4, _nhwc),
    ),
    *table("H58 layout", conv_chain=(4, lambda g: g.conv(g.Relu(_max(g, g.conv(g.conv(_img(g)))))))),
    *table(
        "H59 shuffle_channels",
        alone=(1, lambda g: _shuffled(g, _img(g))),
        between=(3, lambda g: g.conv(_shuffled(g, g.conv(_img(g))))),
    ),
    *table(
        "H60 space_to_depth",
        focus=(1, lambda g: _focus(g, _img(g, 3))),
        focus_8_slices=(1, lambda g: _focus(g, _img(g, 3), at_once=False)),
        focus_conv_silu=(2, lambda g: silu(g, g.conv(_focus(g, _img(g, 3))))),
        patch_merging=(2, _patches),
    ),
    *table(
        "H61 movement",
        depth_to_space=(1, lambda g: _pixels(g, _img(g))),
        pixel_shuffle=(1, lambda g: _pixels_in_pieces(g, _img(g))),
        pixel_shuffle_relu=(1, lambda g: g.Relu(_pixels_in_pieces(g, _img(g)))),
        depth_to_space_relu=(1, lambda g: g.Relu(_pixels(g, _img(g)))),
        reshapes=(0, lambda g: g.view(g.view(_x(g), 12, 8), 4, 24)),
        gathers=(2, _gathers),
        slices=(3, _halves),
        concat_of_split=(1, lambda g: g.Relu(g.Concat(*g.split(_img(g), 2, 1), axis=1))),
        head_sigmoid=(2, _head),
        head_ssd=(4, _ssd),
        head_yolo=(2, _yolo),
    ),
]
