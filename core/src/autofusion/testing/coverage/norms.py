"""Rows D and E: normalisations and activations in their pieces."""

from __future__ import annotations

from collections.abc import Callable

from autofusion.ir.graph import Value
from autofusion.testing.coverage.epilogues import elu_where, gelu, gelu_tanh, hard_swish, mish, prelu_where, silu
from autofusion.testing.coverage.net import Net, Variant, table

_EPS = 1e-5


def _x(g: Net) -> Value:
    return g.x(2, 6, 8)


def _square(g: Net, x: Value) -> Value:
    return g.Pow(x, 2.0)


def _times(g: Net, x: Value) -> Value:
    return g.Mul(x, x)


def layer_norm(g: Net, x: Value, square: Callable[[Net, Value], Value] = _square, axis: int = -1, *more: int) -> Value:
    """As PyTorch writes it."""
    d = g.Sub(x, g.mean(x, axis))
    y = g.Div(d, g.Sqrt(g.Add(g.mean(square(g, d), axis), _EPS)))
    shape = (x.tensor.static_shape[axis], *more)
    return g.Add(g.Mul(y, g.p(*shape)), g.w(*shape))


def _rstd(g: Net, v: Value) -> Value:
    return g.Reciprocal(g.Sqrt(g.Add(v, _EPS)))


def _gamma_rstd(g: Net) -> Value:
    x = _x(g)
    d = g.Sub(x, g.mean(x))
    return g.Add(g.Mul(d, g.Mul(_rstd(g, g.mean(_times(g, d))), g.p(8))), g.w(8))


def _gamma_first(g: Net) -> Value:
    x = _x(g)
    d = g.Sub(x, g.mean(x))
    return g.Add(g.Div(g.Mul(d, g.p(8)), g.Sqrt(g.Add(g.mean(_square(g, d)), _EPS))), g.w(8))


def _moments(g: Net) -> Value:
    x = _x(g)
    mean = g.mean(x)
    variance = g.Sub(g.mean(_times(g, x)), _times(g, mean))
    return g.Add(g.Mul(g.Mul(g.Sub(x, mean), _rstd(g, variance)), g.p(8)), g.w(8))


def _tensorflow(g: Net) -> Value:
    """x * (rstd * gamma) + (beta - mean * (rstd * gamma))."""
    x = _x(g)
    mean = g.mean(x)
    scale = g.Mul(_rstd(g, g.mean(_times(g, g.Sub(x, mean)))), g.p(8))
    return g.Add(g.Mul(x, scale), g.Sub(g.w(8), g.Mul(mean, scale)))


def _deviation(g: Net) -> Value:
    x = _x(g)
    d = g.Sub(x, g.mean(x))
    return g.Add(g.Mul(g.Div(d, g.Add(g.Sqrt(g.mean(_times(g, d))), 1e-6)), g.p(8)), g.w(8))


def _square_sum(g: Net) -> Value:
    x = _x(g)
    d = g.Sub(x, g.mean(x))
    variance = g.Div(g.ReduceSumSquare(d, g.i(-1)), 8.0)
    return g.Add(g.Mul(g.Div(d, g.Sqrt(g.Add(variance, _EPS))), g.p(8)), g.w(8))


def _channels_last(g: Net) -> Value:
    return g.t(layer_norm(g, g.t(g.x(1, 8, 5, 5), 0, 2, 3, 1)), 0, 3, 1, 2)


def rms_norm(g: Net, x: Value, square: Callable[[Net, Value], Value] = _square) -> Value:
    """As LLaMA's export has it."""
    return g.Mul(g.Mul(x, _rstd(g, g.mean(square(g, x)))), g.p(x.tensor.static_shape[-1]))


def _rms(g: Net, form: str) -> Value:
    x, gamma = _x(g), g.p(8)
    root = g.Sqrt(g.Add(g.mean(_square(g, x)), _EPS))
    if form == "div":
        return g.Mul(g.Div(x, root), gamma)
    if form == "gamma first":
        return g.Div(g.Mul(x, gamma), root)
    if form == "gamma rstd":
        return g.Mul(x, g.Mul(g.Reciprocal(root), gamma))
    return g.Mul(gamma, g.Mul(x, g.Pow(g.Add(g.mean(_times(g, x)), _EPS), -0.5)))


def _instance_pieces(g: Net) -> Value:
    x = g.x(2, 4, 6, 6)
    d = g.Sub(x, g.mean(x, 2, 3))
    y = g.Div(d, g.Sqrt(g.Add(g.mean(_times(g, d), 2, 3), _EPS)))
    return g.Add(g.Mul(y, g.p(4, 1, 1)), g.w(4, 1, 1))


def _instance(g: Net) -> Value:
    return g.InstanceNormalization(g.x(2, 4, 6, 6), g.p(4), g.w(4))


def group_norm(g: Net, x: Value) -> Value:
    """As PyTorch writes it."""
    n, c, *space = x.tensor.static_shape
    y = g.InstanceNormalization(g.view(x, n, 2, -1), g.k([1.0, 1.0]), g.k([0.0, 0.0]))
    return g.Add(g.Mul(g.view(y, n, c, *space), g.p(c, 1, 1)), g.w(c, 1, 1))


def _group_op(g: Net) -> Value:
    return g.GroupNormalization(g.x(2, 8, 5, 5), g.p(8), g.w(8), num_groups=2)


def _l2(g: Net, form: str) -> Value:
    x = _x(g)
    if form == "clip":
        return g.Div(x, g.Clip(g.ReduceL2(x, g.i(-1)), 1e-12))
    if form == "expand":
        return g.Div(x, g.Expand(g.Clip(g.ReduceL2(x, g.i(-1)), 1e-12), g.i(2, 6, 8)))
    if form == "max":
        return g.Div(x, g.Max(g.ReduceL2(x, g.i(-1)), 1e-12))
    if form == "tf":
        return g.Mul(x, g.Reciprocal(g.Sqrt(g.Max(g.sum(_times(g, x)), 1e-12))))
    return g.Div(x, g.Add(g.ReduceL2(x, g.i(-1)), 1e-6))


def _l2_form(form: str) -> tuple[int, Callable[[Net], Value]]:
    return 1, lambda g: _l2(g, form)


def _glu_channels(g: Net) -> Value:
    a, b = g.split(g.x(2, 16, 7), 2, 1)
    return g.Mul(a, g.Sigmoid(b))


def _embedded(g: Net, *tables: int) -> Value:
    parts = [g.Gather(g.w(rows, 8), g.x(2, 6, dtype="int64")) for rows in tables]
    total = g.Add(parts[0], g.w(6, 8))
    for part in parts[1:]:
        total = g.Add(total, part)
    return layer_norm(g, total)


def _softmax(g: Net, x: Value, shift: bool = True, by: str = "div") -> Value:
    e = g.Exp(g.Sub(x, g.ReduceMax(x, g.i(-1))) if shift else x)
    total = g.sum(e)
    return g.Div(e, total) if by == "div" else g.Mul(e, g.Reciprocal(total))


def _glu(g: Net, act: str = "sigmoid") -> Value:
    a, b = g.split(g.x(2, 6, 16), 2)
    return g.Mul(a, g.Sigmoid(b) if act == "sigmoid" else silu(g, b))


def _slices(g: Net) -> Value:
    x = g.x(2, 6, 16)
    return g.Mul(g.cut(x, -1, 0, 8), silu(g, g.cut(x, -1, 8, 16)))


VARIANTS: list[Variant] = [
    *table(
        "D35 layer_norm",
        torch=(1, lambda g: layer_norm(g, _x(g))),
        mul_square=(1, lambda g: layer_norm(g, _x(g), _times)),
        op=(1, lambda g: g.LayerNormalization(_x(g), g.p(8), g.w(8))),
        gamma_rstd=(1, _gamma_rstd),
        gamma_first=(1, _gamma_first),
        moments=(1, _moments),
        tensorflow=(1, _tensorflow),
        deviation=(1, _deviation),
        square_sum=(1, _square_sum),
        channels_first=(1, lambda g: layer_norm(g, g.x(1, 8, 5, 5), _square, 1, 1, 1)),
        channels_last=(1, _channels_last),
    ),
    *table(
        "D36 skip_layer_norm",
        add=(1, lambda g: layer_norm(g, g.Add(_x(g), _x(g)))),
        both=(1, lambda g: (lambda s: [layer_norm(g, s), s])(g.Add(_x(g), _x(g)))),
    ),
    *table("D37 bias_skip_layer_norm", both=(1, lambda g: layer_norm(g, g.Add(g.Add(_x(g), g.w(8)), _x(g))))),
    *table(
        "D38 rms_norm",
        torch=(1, lambda g: rms_norm(g, _x(g))),
        mul_square=(1, lambda g: rms_norm(g, _x(g), _times)),
        op=(1, lambda g: g.RMSNormalization(_x(g), g.p(8))),
        div=(1, lambda g: _rms(g, "div")),
        gamma_first=(1, lambda g: _rms(g, "gamma first")),
        gamma_rstd=(1, lambda g: _rms(g, "gamma rstd")),
        pow_half=(1, lambda g: _rms(g, "pow")),
        skip=(1, lambda g: rms_norm(g, g.Add(_x(g), _x(g)))),
    ),
    *table(
        "D39 instance_norm",
        op=(1, _instance),
        relu=(1, lambda g: g.Relu(_instance(g))),
        leaky=(1, lambda g: g.LeakyRelu(_instance(g), alpha=0.2)),
        pieces=(1, _instance_pieces),
        pieces_relu=(1, lambda g: g.Relu(_instance_pieces(g))),
    ),
    *table(
        "D40 group_norm",
        op=(1, _group_op),
        op_silu=(1, lambda g: silu(g, _group_op(g))),
        torch=(1, lambda g: group_norm(g, g.x(2, 8, 5, 5))),
        torch_silu=(1, lambda g: silu(g, group_norm(g, g.x(2, 8, 5, 5)))),
    ),
    *table(
        "D40 normalize_l2",
        op=(1, lambda g: g.LpNormalization(_x(g))),
        **{form: _l2_form(form) for form in ("clip", "expand", "max", "tf", "add")},
    ),
    *table(
        "D40 embed_layer_norm",
        word_position=(2, lambda g: _embedded(g, 20)),
        word_position_type=(2, lambda g: _embedded(g, 20, 3)),
    ),
    *table(
        "D41 bn_act",
        relu=(1, lambda g: g.Relu(g.bn(g.x(2, 8, 5, 5)))),
        silu=(1, lambda g: silu(g, g.bn(g.x(2, 8, 5, 5)))),
        leaky=(1, lambda g: g.LeakyRelu(g.bn(g.x(2, 8, 5, 5)), alpha=0.1)),
    ),
    *table(
        "D42 norm_epilogue",
        gelu=(1, lambda g: gelu(g, layer_norm(g, _x(g)))),
        modulate=(1, lambda g: g.Add(g.Mul(layer_norm(g, _x(g)), g.Add(g.x(2, 1, 8), 1.0)), g.x(2, 1, 8))),
        rms_gated=(1, lambda g: g.Mul(rms_norm(g, _x(g)), silu(g, _x(g)))),
    ),
    *table(
        "E43 gelu_erf",
        div=(1, lambda g: gelu(g, _x(g))),
        half_first=(1, lambda g: (lambda x: g.Mul(g.Mul(x, 0.5), g.Add(g.Erf(g.Mul(x, 0.70710678)), 1.0)))(_x(g))),
        half_inside=(1, lambda g: (lambda x: g.Mul(x, g.Mul(g.Add(g.Erf(g.Div(x, 1.41421356)), 1.0), 0.5)))(_x(g))),
    ),
    *table("E44 gelu_tanh", torch=(1, lambda g: gelu_tanh(g, _x(g)))),
    *table(
        "E45 quick_gelu_silu",
        silu=(1, lambda g: silu(g, _x(g))),
        quick=(1, lambda g: (lambda x: g.Mul(x, g.Sigmoid(g.Mul(x, 1.702))))(_x(g))),
    ),
    *table(
        "E46 activations",
        mish=(1, lambda g: mish(g, _x(g))),
        softplus=(1, lambda g: g.Log(g.Add(g.Exp(_x(g)), 1.0))),
        hard_swish=(1, lambda g: hard_swish(g, _x(g))),
        hard_sigmoid=(1, lambda g: g.Div(g.Clip(g.Add(_x(g), 3.0), 0.0, 6.0), 6.0)),
        leaky=(1, lambda g: (lambda x: g.Max(x, g.Mul(x, 0.1)))(_x(g))),
        prelu=(1, lambda g: (lambda x: g.Add(g.Relu(x), g.Mul(g.Sub(x, g.Abs(x)), 0.125)))(_x(g))),
        clamp=(1, lambda g: g.Min(g.Max(_x(g), 0.0), 6.0)),
        elu_where=(1, lambda g: elu_where(g, _x(g))),
        prelu_where=(1, lambda g: prelu_where(g, _x(g), (8,))),
    ),
    *table(
        "E47 softmax",
        div=(1, lambda g: _softmax(g, _x(g))),
        reciprocal=(1, lambda g: _softmax(g, _x(g), by="mul")),
        no_maximum=(1, lambda g: _softmax(g, _x(g), shift=False)),
        masked=(1, lambda g: g.Softmax(g.Add(_x(g), g.x(6, 8)))),
        log=(1, lambda g: g.Log(g.Softmax(_x(g)))),
    ),
    *table(
        "E48 glu",
        split_sigmoid=(1, _glu),
        split_silu=(1, lambda g: _glu(g, "silu")),
        slices_silu=(1, _slices),
        channels=(1, _glu_channels),
        two_operands=(1, lambda g: g.Mul(silu(g, _x(g)), _x(g))),
    ),
]
