"""Arithmetic against TensorFlow itself: products, pointwise operators, reductions, and quantised numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_operators import Cases, integers, normal, positive  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
nn = tf.nn
CASES = Cases()
case = CASES.add

# ---- products
for ta in (False, True):
    for tb in (False, True):
        case(
            f"matmul_{ta}_{tb}",
            lambda a, b, ta=ta, tb=tb: tf.matmul(a, b, transpose_a=ta, transpose_b=tb),
            normal(*((5, 3) if ta else (3, 5))),
            normal(*((4, 5) if tb else (5, 4))),
        )
        case(
            f"batch_matmul_{ta}_{tb}",
            lambda a, b, ta=ta, tb=tb: tf.matmul(a, b, transpose_a=ta, transpose_b=tb),
            normal(2, *((5, 3) if ta else (3, 5))),
            normal(2, *((4, 5) if tb else (5, 4))),
        )
case("batch_matmul_broadcast", lambda a, b: tf.matmul(a, b), normal(2, 1, 3, 5), normal(4, 5, 6))
case("einsum", lambda a, b: tf.einsum("bij, bjk -> bik", a, b), normal(2, 3, 4), normal(2, 4, 5))
case("einsum_ellipsis", lambda a, b: tf.einsum("...ij,jk->...ik", a, b), normal(2, 3, 4), normal(4, 5))

# ---- pointwise
SPECIAL = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 0.5, 1e-30, 2.0])
UNARY = {
    "abs": tf.abs,
    "acos": lambda x: tf.acos(tf.tanh(x)),
    "acosh": lambda x: tf.acosh(tf.abs(x) + 1),
    "asin": lambda x: tf.asin(tf.tanh(x)),
    "asinh": tf.asinh,
    "atan": tf.atan,
    "atanh": lambda x: tf.atanh(tf.tanh(x) * 0.9),
    "ceil": tf.math.ceil,
    "cos": tf.cos,
    "cosh": tf.cosh,
    "elu": nn.elu,
    "erf": tf.math.erf,
    "erfc": tf.math.erfc,
    "exp": tf.exp,
    "expm1": tf.math.expm1,
    "floor": tf.floor,
    "is_finite": lambda x: tf.math.is_finite(x),
    "leaky_relu": lambda x: nn.leaky_relu(x),
    "leaky_relu_alpha": lambda x: nn.leaky_relu(x, 0.3),
    "log": lambda x: tf.math.log(tf.abs(x) + 0.1),
    "log1p": lambda x: tf.math.log1p(tf.abs(x)),
    "neg": tf.negative,
    "reciprocal": tf.math.reciprocal,
    "relu": nn.relu,
    "relu6": lambda x: nn.relu6(x * 5),
    "rint": tf.math.rint,
    "round": lambda x: tf.round(x * 4) / 4,
    "rsqrt": lambda x: tf.math.rsqrt(tf.abs(x) + 0.1),
    "selu": nn.selu,
    "sigmoid": tf.sigmoid,
    "sign": tf.sign,
    "sin": tf.sin,
    "sinh": tf.sinh,
    "softplus": nn.softplus,
    "softsign": nn.softsign,
    "sqrt": lambda x: tf.sqrt(tf.abs(x)),
    "square": tf.square,
    "tan": tf.tan,
    "tanh": tf.tanh,
    "clip_scalar": lambda x: tf.clip_by_value(x, -0.5, 0.7),
    "gelu": lambda x: nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: nn.gelu(x, approximate=True),
    "silu": lambda x: nn.silu(x),
    "zeros_like": lambda x: tf.zeros_like(x) + x,
    "ones_like": lambda x: tf.ones_like(x) * x,
    "to_int": lambda x: tf.cast(x * 10, tf.int32),
    "to_half": lambda x: tf.cast(tf.cast(x, tf.float16), tf.float32),
    "to_bool": lambda x: tf.cast(x, tf.bool),
}
for name, function in UNARY.items():
    case(f"unary_{name}", function, normal(3, 4, 5))
case(
    "clip_tensor",
    lambda x: raw.ClipByValue(t=x, clip_value_min=-positive(3, 4), clip_value_max=positive(3, 4)),
    normal(3, 4),
)
for name in ("relu", "relu6", "is_nan", "is_inf", "is_finite", "sign", "floor", "round"):
    special = getattr(nn, name, None) or getattr(tf.math, name)
    case(f"special_{name}", special, SPECIAL)
case("special_div_no_nan", lambda x, y: tf.math.divide_no_nan(x, y), SPECIAL, np.zeros(10, np.float32))
case("expm1_small", lambda x: tf.math.expm1(x * 1e-4) * 1e4, normal(3, 4))
case("log1p_small", lambda x: tf.math.log1p(x * 1e-4) * 1e4, normal(3, 4))

BINARY = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "div": tf.divide,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "squared_difference": tf.math.squared_difference,
    "floordiv": tf.math.floordiv,
    "floormod": tf.math.floormod,
    "truncatemod": tf.truncatemod,
    "atan2": tf.atan2,
    "xdivy": tf.math.xdivy,
    "mul_no_nan": tf.math.multiply_no_nan,
    "less": tf.less,
    "less_equal": tf.less_equal,
    "greater": tf.greater,
    "greater_equal": tf.greater_equal,
    "equal": tf.equal,
    "not_equal": tf.not_equal,
    "pow": lambda x, y: tf.pow(tf.abs(x), y),
    "xlogy": lambda x, y: tf.math.xlogy(x, tf.abs(y)),
    "xlog1py": lambda x, y: tf.math.xlog1py(x, tf.abs(y)),
    "bool": lambda x, y: tf.logical_or(tf.logical_and(x > 0, y > 0), tf.logical_not(x > y)),
    "select": lambda x, y: tf.where(x > y, x, y),
    "bias_add": lambda x, y: nn.bias_add(x, y[0]),
}
for name, function in BINARY.items():
    case(f"binary_{name}", function, normal(3, 4), normal(3, 4) + 0.05)
case("binary_broadcast", lambda x, y: x * y + y, normal(3, 1, 4), normal(5, 1))
for name in ("floordiv", "floormod", "truncatemod", "truncatediv"):
    integer = getattr(tf, name, None) or getattr(tf.math, name)
    case(f"integer_{name}", integer, integers(-20, 20, 30), np.int32([-7, -3, -2, 2, 3, 7] * 5))
case(
    "bitwise",
    lambda x, y: tf.bitwise.bitwise_xor(x & y, tf.bitwise.invert(x | y)),
    integers(0, 99, 9),
    integers(5, 60, 9),
)
case("shifts", lambda x: tf.bitwise.right_shift(tf.bitwise.left_shift(x, 3), 5), integers(-99, 99, 9))
case("add_n", lambda x, y: tf.add_n([x, y, x * 2.0]), normal(3, 4), normal(3, 4))
case("select_rows", lambda x, y: raw.Select(condition=[True, False, True], x=x, y=y), normal(3, 4), normal(3, 4))
case("bias_add_first", lambda x: nn.bias_add(x, normal(3), data_format="NCHW"), normal(2, 3, 4, 4))

# ---- reductions
for name in ("mean", "sum", "max", "min", "prod", "euclidean_norm"):
    function = getattr(tf, f"reduce_{name}", None) or getattr(tf.math, f"reduce_{name}")
    for axes in (None, [1, 2], [-1], 1, []):
        for keep in (False, True):
            case(
                f"reduce_{name}_{axes}_{keep}",
                lambda x, f=function, a=axes, k=keep: f(x, a, k),
                normal(2, 3, 4, 2),
            )
case("reduce_all", lambda x: tf.reduce_all(x > -1, -1), normal(3, 4))
case("reduce_any", lambda x: tf.reduce_any(x > 1, [0]), normal(3, 4))
case("reduce_integers", lambda x: tf.reduce_max(x, 0) + tf.reduce_sum(x, 0), integers(-9, 9, 3, 4))
case("argmax", lambda x: tf.argmax(x, 1), normal(3, 4, 5))
case("argmin_ties", lambda x: tf.argmin(x, -1, tf.int32), np.float32([[1, 0, 0], [2, 2, 2]]))
for exclusive in (False, True):
    for reverse in (False, True):
        case(
            f"cumsum_{exclusive}_{reverse}",
            lambda x, e=exclusive, r=reverse: tf.cumsum(x, 1, e, r),
            normal(3, 4),
        )

# ---- quantisation
for narrow in (False, True):
    case(
        f"fake_quant_args_{narrow}",
        lambda x, n=narrow: tf.quantization.fake_quant_with_min_max_args(x, -1.3, 2.1, narrow_range=n),
        normal(3, 4, 5),
    )
    case(
        f"fake_quant_channels_{narrow}",
        lambda x, n=narrow: tf.quantization.fake_quant_with_min_max_vars_per_channel(
            x, -positive(5), positive(5) * 2, narrow_range=n
        ),
        normal(3, 4, 5),
    )


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, tmp_path: Path) -> None:
    CASES.check(name, tmp_path)
