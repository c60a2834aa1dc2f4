"""Rows A: constants that go into weights."""

from __future__ import annotations

import math

import numpy as np

from autofusion.ir.graph import Value
from autofusion.testing.coverage.net import Net, Variant, table

_LOWEST = float(np.finfo(np.float32).min)


def _img(g: Net) -> Value:
    return g.x(1, 8, 10, 10)


def _pad(g: Net, x: Value, value: float | None = None) -> Value:
    return g.Pad(x, g.i(0, 0, 1, 1, 0, 0, 1, 1), *([] if value is None else [value]))


def _tconv(g: Net, **attrs: int) -> Value:
    return g.ConvTranspose(_img(g), g.w(8, 4, 2, 2), g.w(4), strides=[2, 2], **attrs)


def _conv0(g: Net, x: Value) -> Value:
    return g.conv(x, pads=[0, 0, 0, 0])


def _scores(g: Net) -> tuple[Value, Value]:
    return g.x(2, 2, 5, 8), g.x(2, 2, 8, 5)


VARIANTS: list[Variant] = [
    *table(
        "A1 conv_bn",
        bias=(1, lambda g: g.bn(g.conv(_img(g)))),
        no_bias=(1, lambda g: g.bn(g.conv(_img(g), bias=False))),
        grouped=(1, lambda g: g.bn(g.conv(_img(g), group=4))),
        conv1d=(1, lambda g: g.bn(g.conv(g.x(1, 8, 12)))),
        two_convs=(2, lambda g: g.bn(g.conv(g.Relu(g.bn(g.conv(_img(g))))))),
        pieces=(1, lambda g: g.Add(g.Mul(g.Sub(g.conv(_img(g)), g.w(8, 1, 1)), g.p(8, 1, 1)), g.w(8, 1, 1))),
    ),
    *table(
        "A2 convtranspose_bn",
        plain=(1, lambda g: g.bn(_tconv(g))),
        grouped=(1, lambda g: g.bn(g.ConvTranspose(_img(g), g.w(8, 2, 2, 2), group=4, strides=[2, 2]))),
    ),
    *table(
        "A3 dwconv_bn_act",
        clip=(1, lambda g: g.Clip(g.bn(g.dw(_img(g), bias=False)), 0.0, 6.0)),
        relu=(1, lambda g: g.Relu(g.bn(g.dw(_img(g))))),
        hardswish=(1, lambda g: g.HardSwish(g.bn(g.dw(_img(g), bias=False)))),
    ),
    *table(
        "A4 conv_mul_add",
        mul_channel=(1, lambda g: g.Mul(g.conv(_img(g)), g.p(1, 8, 1, 1))),
        add_channel=(1, lambda g: g.Add(g.conv(_img(g), bias=False), g.w(1, 8, 1, 1))),
        mul_number=(1, lambda g: g.Mul(g.conv(_img(g)), 0.5)),
        div_number=(1, lambda g: g.Div(g.conv(_img(g)), 255.0)),
        sub_add_mul=(1, lambda g: g.Mul(g.Add(g.Sub(g.conv(_img(g)), 0.5), g.w(8, 1, 1)), 2.0)),
    ),
    *table(
        "A5 mul_conv",
        number=(1, lambda g: g.conv(g.Mul(_img(g), 1 / 255))),
        channel=(1, lambda g: g.conv(g.Mul(_img(g), g.p(1, 8, 1, 1)))),
        div_channel=(1, lambda g: g.conv(g.Div(_img(g), g.p(8, 1, 1)))),
        shift_no_pad=(1, lambda g: _conv0(g, g.Sub(_img(g), g.w(1, 8, 1, 1)))),
        mean_std_1x1=(1, lambda g: g.conv(g.Div(g.Sub(_img(g), g.w(8, 1, 1)), g.p(8, 1, 1)), k=1)),
    ),
    *table(
        "A6 bn_conv",
        no_pad=(1, lambda g: _conv0(g, g.bn(_img(g)))),
        conv1x1=(1, lambda g: g.conv(g.bn(_img(g)), k=1)),
    ),
    *table(
        "A7 matmul_bn",
        matmul=(1, lambda g: g.bn(g.mm(g.x(4, 8)))),
        matmul_bias=(1, lambda g: g.bn(g.lin(g.x(4, 8)))),
        gemm=(1, lambda g: g.bn(g.gemm(g.x(4, 8)))),
        gemm_relu=(1, lambda g: g.Relu(g.bn(g.gemm(g.x(4, 8))))),
    ),
    *table(
        "A8 pad_conv",
        zero=(1, lambda g: _conv0(g, _pad(g, _img(g)))),
        zero_stated=(1, lambda g: _conv0(g, _pad(g, _img(g), 0.0))),
        also_pads=(1, lambda g: g.conv(_pad(g, _img(g)))),
        one_side=(1, lambda g: g.conv(g.Pad(_img(g), g.i(0, 0, 0, 0, 0, 0, 1, 1)), pads=[0] * 4, strides=[2, 2])),
    ),
    *table(
        "A9 pad_pool",
        average=(1, lambda g: g.AveragePool(_pad(g, _img(g)), kernel_shape=[2, 2])),
        max_infinity=(1, lambda g: g.MaxPool(_pad(g, _img(g), -math.inf), kernel_shape=[3, 3])),
        max_lowest=(1, lambda g: g.MaxPool(_pad(g, _img(g), _LOWEST), kernel_shape=[3, 3])),
        max_behind_relu=(1, lambda g: g.MaxPool(_pad(g, g.Relu(_img(g))), kernel_shape=[3, 3])),
    ),
    *table(
        "A10 matmul_scale",
        mul=(1, lambda g: g.Mul(g.MatMul(*_scores(g)), 0.125)),
        div=(1, lambda g: g.Div(g.MatMul(*_scores(g)), 8.0)),
        weight=(1, lambda g: g.Mul(g.mm(g.x(2, 5, 8)), 0.5)),
        before_q=(1, lambda g: g.MatMul(g.Mul(g.x(2, 2, 5, 8), 0.125), g.x(2, 2, 8, 5))),
        on_both=(1, lambda g: g.MatMul(g.Mul(g.x(2, 2, 5, 8), 0.5), g.Mul(g.x(2, 2, 8, 5), 0.5))),
    ),
    *table(
        "A11 transpose_matmul",
        weight=(1, lambda g: g.MatMul(g.x(4, 8), g.t(g.w(16, 8), 1, 0))),
        rank2_b=(1, lambda g: g.MatMul(g.x(4, 8), g.t(g.x(5, 8), 1, 0))),
        rank2_a=(1, lambda g: g.MatMul(g.t(g.x(8, 4), 1, 0), g.x(8, 5))),
        rank3_b=(1, lambda g: g.MatMul(g.x(2, 4, 8), g.t(g.x(2, 5, 8), 0, 2, 1))),
        rank4_b=(1, lambda g: g.MatMul(g.x(2, 2, 4, 8), g.t(g.x(2, 2, 5, 8), 0, 1, 3, 2))),
        rank4_a=(1, lambda g: g.MatMul(g.t(g.x(2, 2, 8, 4), 0, 1, 3, 2), g.x(2, 2, 8, 5))),
        heads=(1, lambda g: g.MatMul(g.x(2, 2, 5, 4), g.heads(g.x(2, 5, 8), 2, 0, 2, 3, 1))),
        gemm=(1, lambda g: g.Gemm(g.t(g.x(8, 4), 1, 0), g.w(8, 5), g.w(5))),
    ),
    *table(
        "A12 linop_sequence",
        mul_add_mul=(1, lambda g: g.Mul(g.Add(g.Mul(g.x(2, 8, 6), 2.0), 1.0), 0.5)),
        add_add=(1, lambda g: g.Add(g.Add(g.x(2, 8, 6), 2.0), 3.0)),
    ),
    *table(
        "A13 algebra",
        gemm_sum=(1, lambda g: g.Add(g.gemm(g.x(4, 8)), g.x(4, 16))),
        relu_clip=(1, lambda g: g.Clip(g.Relu(g.x(4, 8)), 0.0, 6.0)),
        not_where=(1, lambda g: g.Where(g.Not(g.Less(g.x(4, 8), 0.0)), g.x(4, 8), 0.0)),
        div_mul=(1, lambda g: g.Mul(g.Div(g.s(1.0), g.x(4, 8)), g.x(4, 8))),
    ),
]
