"""Rows B and C: what follows a convolution or a product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autofusion.ir.graph import Value
from autofusion.testing.coverage.net import Net, Variant, table


def _c(g: Net, **attrs: Any) -> Value:
    return g.conv(g.x(1, 8, 9, 9), **attrs)


def silu(g: Net, x: Value) -> Value:
    """x * sigmoid(x)."""
    return g.Mul(x, g.Sigmoid(x))


def mish(g: Net, x: Value) -> Value:
    """x * tanh(softplus(x))."""
    return g.Mul(x, g.Tanh(g.Softplus(x)))


def gelu(g: Net, x: Value) -> Value:
    """By the error function, as PyTorch writes it."""
    return g.Mul(g.Mul(x, g.Add(g.Erf(g.Div(x, 1.4142135381698608)), 1.0)), 0.5)


def gelu_tanh(g: Net, x: Value) -> Value:
    """By tanh, as PyTorch writes it."""
    inner = g.Mul(g.Add(x, g.Mul(g.Pow(x, 3.0), 0.044714998453855515)), 0.7978845834732056)
    return g.Mul(g.Mul(x, 0.5), g.Add(g.Tanh(inner), 1.0))


def hard_swish(g: Net, x: Value) -> Value:
    """x * clip(x + 3, 0, 6) / 6."""
    return g.Div(g.Mul(x, g.Clip(g.Add(x, 3.0), 0.0, 6.0)), 6.0)


def elu_where(g: Net, x: Value) -> Value:
    """ELU by Where."""
    return g.Where(g.Greater(x, 0.0), x, g.Sub(g.Exp(x), 1.0))


def prelu_where(g: Net, x: Value, channels: tuple[int, ...] = (8, 1, 1)) -> Value:
    """PReLU by Where."""
    return g.Where(g.Greater(x, 0.0), x, g.Mul(x, g.p(*channels)))


_ACTIVATIONS: dict[str, Callable[[Net, Value], Value]] = {
    "Relu": lambda g, x: g.Relu(x),
    "LeakyRelu": lambda g, x: g.LeakyRelu(x, alpha=0.1),
    "Sigmoid": lambda g, x: g.Sigmoid(x),
    "Tanh": lambda g, x: g.Tanh(x),
    "Clip": lambda g, x: g.Clip(x, 0.0, 6.0),
    "Elu": lambda g, x: g.Elu(x),
    "HardSigmoid": lambda g, x: g.HardSigmoid(x),
    "HardSwish": lambda g, x: g.HardSwish(x),
    "Softplus": lambda g, x: g.Softplus(x),
    "Selu": lambda g, x: g.Selu(x),
    "silu": silu,
    "mish": mish,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "hard_swish": hard_swish,
}


def _each(row: str, make: Callable[[Net, Callable[[Net, Value], Value]], Value], *names: str) -> list[Variant]:
    """A row with one variant for each activation."""

    def built(name: str) -> tuple[int, Callable[[Net], Value]]:
        return 1, lambda g: make(g, _ACTIVATIONS[name])

    return table(row, **{name: built(name) for name in names or _ACTIVATIONS})


def _residual(g: Net, behind: bool = True) -> Value:
    x = g.x(1, 8, 9, 9)
    made = g.Add(g.conv(x), x)
    return g.Relu(made) if behind else made


def _gate(g: Net, x: Value) -> Value:
    pooled = g.GlobalAveragePool(x)
    return g.Mul(x, g.Sigmoid(g.conv(g.Relu(g.conv(pooled, 4, 1)), 8, 1)))


def _h(g: Net, *shape: int) -> Value:
    return g.x(*(shape or (2, 6, 8)))


def _qkv(g: Net, one: Callable[[Net, Value], Value], x: Value) -> list[Value]:
    return [one(g, x) for _ in range(3)]


def _swiglu(g: Net) -> Value:
    gate, up = g.split(g.mm(_h(g), 32), 2)
    return g.mm(g.Mul(silu(g, gate), up), 8)


def _flat(g: Net, behind: Callable[[Net, Value], Value]) -> Value:
    made = g.gemm(g.view(_h(g), 12, 8))
    return g.Add(g.view(behind(g, made), 2, 6, 16), g.x(2, 6, 16))


VARIANTS: list[Variant] = [
    *_each("B14 conv_act", lambda g, act: act(g, _c(g)), "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip"),
    *table(
        "B14 conv_act",
        conv1d=(1, lambda g: g.Relu(g.conv(g.x(1, 8, 12)))),
        conv3d=(1, lambda g: g.Relu(g.conv(g.x(1, 4, 5, 5, 5)))),
        computed_weight=(1, lambda g: g.Relu(g.Conv(g.x(1, 8, 9, 9), g.x(8, 8, 3, 3), pads=[1, 1, 1, 1]))),
    ),
    *table(
        "B15 conv_elu",
        op=(1, lambda g: g.Elu(_c(g))),
        where=(1, lambda g: elu_where(g, _c(g))),
    ),
    *_each("B16 conv_hardsigmoid", lambda g, act: act(g, _c(g)), "HardSigmoid"),
    *_each("B17 conv_hardswish", lambda g, act: act(g, _c(g)), "HardSwish", "hard_swish"),
    *_each(
        "B18 conv_silu_mish_gelu", lambda g, act: act(g, _c(g)), "silu", "mish", "gelu", "gelu_tanh", "Softplus", "Selu"
    ),
    *table(
        "B18 conv_silu_mish_gelu",
        prelu=(1, lambda g: g.PRelu(_c(g), g.p(8, 1, 1))),
        prelu_where=(1, lambda g: prelu_where(g, _c(g))),
    ),
    *table(
        "B19 conv_act_chain",
        four=(1, lambda g: g.Tanh(g.LeakyRelu(g.Mul(g.Sigmoid(_c(g)), 2.0), alpha=0.2))),
        abs_sqrt=(1, lambda g: g.Sqrt(g.Abs(g.Relu(_c(g))))),
    ),
    *table(
        "B20 conv_add_act",
        residual=(1, lambda g: _residual(g)),
        residual_alone=(1, lambda g: _residual(g, behind=False)),
        act_then_add=(1, lambda g: g.Add(g.Relu(_c(g)), g.x(1, 8, 9, 9))),
        two_convs=(2, lambda g: g.Relu(g.Add(_c(g), _c(g)))),
        bottleneck=(
            3,
            lambda g: (lambda x: g.Relu(g.Add(g.conv(g.Relu(g.conv(g.Relu(g.conv(x, 4, 1)), 4)), 8, 1), x)))(
                g.x(1, 8, 9, 9)
            ),
        ),
        spatial_map=(1, lambda g: g.Mul(_c(g), g.x(1, 1, 9, 9))),
    ),
    *table(
        "B21 conv_bn_act",
        relu=(1, lambda g: g.Relu(g.bn(_c(g)))),
        silu=(1, lambda g: silu(g, g.bn(_c(g, bias=False)))),
        leaky=(1, lambda g: g.LeakyRelu(g.bn(_c(g)), alpha=0.1)),
    ),
    *table(
        "B22 conv_dwconv",
        mobilenet=(2, lambda g: g.Clip(g.dw(g.Clip(g.conv(g.x(1, 8, 9, 9), 16, 1), 0.0, 6.0)), 0.0, 6.0)),
    ),
    *table(
        "B23 conv_gate_mul", se=(5, lambda g: _gate(g, silu(g, _c(g)))), relu=(5, lambda g: _gate(g, g.Relu(_c(g))))
    ),
    *_each(
        "B24 convtranspose_act",
        lambda g, act: act(g, g.ConvTranspose(g.x(1, 8, 5, 5), g.w(8, 4, 2, 2), g.w(4), strides=[2, 2])),
        "Relu",
        "LeakyRelu",
        "silu",
        "Sigmoid",
    ),
    *table(
        "B25 conv_pool",
        relu_max=(2, lambda g: g.MaxPool(g.Relu(_c(g)), kernel_shape=[2, 2], strides=[2, 2])),
        max_relu=(2, lambda g: g.Relu(g.MaxPool(_c(g), kernel_shape=[2, 2], strides=[2, 2]))),
        relu_mean=(2, lambda g: g.GlobalAveragePool(g.Relu(_c(g)))),
        relu_reduce_mean=(2, lambda g: g.mean(g.Relu(_c(g)), 2, 3)),
    ),
    *table(
        "C26 matmul_bias",
        rank2=(1, lambda g: g.lin(_h(g, 4, 8))),
        rank3=(1, lambda g: g.lin(_h(g))),
        rank4=(1, lambda g: g.lin(_h(g, 2, 3, 4, 8))),
        full=(1, lambda g: g.Add(g.mm(_h(g)), g.w(2, 6, 16))),
        einsum=(1, lambda g: g.Add(g.Einsum(_h(g), g.w(8, 16), equation="bsd,de->bse"), g.w(16))),
        einsum_heads=(1, lambda g: g.Add(g.Einsum(_h(g), g.w(8, 2, 4), equation="bsd,dhe->bshe"), g.w(2, 4))),
        behind_heads=(1, lambda g: g.Add(g.view(g.mm(_h(g)), 2, 6, 2, 8), g.w(2, 8))),
        flattened=(1, lambda g: g.view(g.gemm(g.view(_h(g), 12, 8)), 2, 6, 16)),
    ),
    *_each("C27 gemm_act", lambda g, act: act(g, g.gemm(_h(g, 4, 8)))),
    *_each("C28 matmul_bias_act", lambda g, act: act(g, g.lin(_h(g))), "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu"),
    *_each("C29 matmul_bias_gelu", lambda g, act: act(g, g.lin(_h(g))), "gelu", "gelu_tanh"),
    *table("C29 matmul_bias_gelu", op=(1, lambda g: g.Gelu(g.lin(_h(g))))),
    *_each(
        "C30 gemm_hardswish_silu", lambda g, act: act(g, g.gemm(_h(g, 4, 8))), "HardSwish", "hard_swish", "silu", "mish"
    ),
    *table(
        "C31 matmul_bias_residual",
        rank3=(1, lambda g: g.Add(g.lin(_h(g)), g.x(2, 6, 16))),
        gemm=(1, lambda g: g.Add(g.gemm(_h(g, 4, 8)), g.x(4, 16))),
        relu=(1, lambda g: g.Relu(g.Add(g.x(2, 6, 16), g.lin(_h(g))))),
        flattened=(1, lambda g: _flat(g, lambda g, y: y)),
        flattened_bias=(1, lambda g: g.Add(g.view(g.lin(g.view(_h(g), 12, 8)), 2, 6, 16), g.x(2, 6, 16))),
        flattened_relu=(1, lambda g: _flat(g, lambda g, y: g.Relu(y))),
    ),
    *table(
        "C32 matmul_eltwise",
        relu=(1, lambda g: g.Relu(g.MatMul(g.x(2, 4, 8), g.x(2, 8, 5)))),
        add_mul=(1, lambda g: g.Mul(g.Add(g.MatMul(g.x(2, 4, 8), g.x(2, 8, 5)), g.x(5)), 0.5)),
    ),
    *table(
        "C33 qkv",
        matmul=(1, lambda g: _qkv(g, Net.mm, _h(g))),
        bias=(1, lambda g: _qkv(g, Net.lin, _h(g))),
        gemm=(1, lambda g: _qkv(g, Net.gemm, _h(g, 4, 8))),
        conv1x1=(1, lambda g: _qkv(g, lambda g, x: g.conv(x, 8, 1), g.x(1, 8, 9, 9))),
    ),
    *table(
        "C34 gated_mlp",
        two_products=(3, lambda g: (lambda x: g.mm(g.Mul(silu(g, g.mm(x, 32)), g.mm(x, 32)), 8))(_h(g))),
        gelu=(3, lambda g: (lambda x: g.mm(g.Mul(gelu(g, g.mm(x, 32)), g.mm(x, 32)), 8))(_h(g))),
        split=(3, _swiglu),
    ),
]
