"""Every converter against TensorFlow itself: one small graph an operator and variant, at levels off and full."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tf_graphs import agree  # noqa: E402  (after the skip)

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
nn = tf.nn


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(zlib.crc32(str(shape).encode())).standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.abs(normal(*shape)) + 0.1


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(1).integers(low, high, shape).astype(dtype)


IMAGE = normal(2, 9, 8, 4)
SPECIAL = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 0.5, 1e-30, 2.0])

Case = tuple[Callable[..., Any], list[np.ndarray]]
CASES: dict[str, Case] = {}


def case(name: str, function: Callable[..., Any], *arrays: np.ndarray) -> None:
    assert name not in CASES
    CASES[name] = (function, list(arrays))


# ---- convolutions
for padding in ("SAME", "VALID"):
    for stride in (1, 2, 3):
        case(
            f"conv2d_{padding}_{stride}",
            lambda x, p=padding, s=stride: nn.conv2d(x, normal(3, 3, 4, 5), s, p),
            IMAGE,
        )
        case(
            f"depthwise_{padding}_{stride}",
            lambda x, p=padding, s=stride: nn.depthwise_conv2d(x, normal(3, 2, 4, 2), [1, s, s, 1], p),
            IMAGE,
        )
        case(
            f"conv3d_{padding}_{stride}",
            lambda x, p=padding, s=stride: nn.conv3d(x, normal(2, 3, 2, 3, 4), [1, s, s, s, 1], p),
            normal(1, 5, 6, 7, 3),
        )
    case(f"conv2d_even_{padding}", lambda x, p=padding: nn.conv2d(x, normal(2, 4, 4, 5), [1, 2, 1, 1], p), IMAGE)
    case(f"conv2d_dilated_{padding}", lambda x, p=padding: nn.conv2d(x, normal(3, 3, 4, 5), 1, p, dilations=2), IMAGE)
    case(
        f"conv2d_dilated_by_axis_{padding}",
        lambda x, p=padding: nn.conv2d(x, normal(3, 3, 4, 5), 1, p, dilations=[1, 1, 2, 1]),
        IMAGE,
    )
    case(f"atrous_{padding}", lambda x, p=padding: nn.atrous_conv2d(x, normal(3, 3, 4, 5), 2, p), IMAGE)
    case(
        f"depthwise_atrous_{padding}",
        lambda x, p=padding: nn.depthwise_conv2d(x, normal(3, 3, 4, 2), [1, 1, 1, 1], p, dilations=[2, 2]),
        IMAGE,
    )
    case(
        f"separable_{padding}",
        lambda x, p=padding: nn.separable_conv2d(x, normal(3, 3, 4, 2), normal(1, 1, 8, 3), [1, 1, 1, 1], p),
        IMAGE,
    )
    case(f"conv1d_{padding}", lambda x, p=padding: nn.conv1d(x, normal(3, 4, 5), 2, p), normal(2, 11, 4))
    case(
        f"conv1d_dilated_{padding}",
        lambda x, p=padding: nn.convolution(x, normal(3, 4, 5), padding=p, dilations=[2]),
        normal(2, 11, 4),
    )
case(
    "conv2d_explicit",
    lambda x: nn.conv2d(x, normal(3, 3, 4, 5), [1, 2, 2, 1], [[0, 0], [2, 1], [0, 3], [0, 0]]),
    IMAGE,
)
case("conv2d_bias", lambda x: nn.bias_add(nn.conv2d(x, normal(3, 3, 4, 5), 1, "SAME"), normal(5)), IMAGE)
case("conv2d_computed_weight", lambda x, w: nn.conv2d(x, w * 2.0, 1, "SAME"), IMAGE, normal(3, 3, 4, 5))
case(
    "bias_computed", lambda x, b: nn.relu(nn.bias_add(nn.conv2d(x, normal(3, 3, 4, 5), 1, "SAME"), b)), IMAGE, normal(5)
)
for stride, size in ((2, 9), (2, 10), (3, 9), (1, 9)):
    for padding in ("SAME", "VALID"):
        rows = {"SAME": size, "VALID": size}[padding]
        inner = -(-rows // stride) if padding == "SAME" else -(-(rows - 2) // stride)
        case(
            f"transposed_{padding}_{stride}_{size}",
            lambda x, p=padding, s=stride, n=size: nn.conv2d_transpose(x, normal(3, 3, 5, 4), [2, n, n, 5], s, p),
            normal(2, inner, inner, 4),
        )
case(
    "transposed_3d",
    lambda x: nn.conv3d_transpose(x, normal(3, 3, 3, 2, 4), [1, 6, 6, 8, 2], 2, "SAME"),
    normal(1, 3, 3, 4, 4),
)

for padding in ("SAME", "VALID"):
    case(
        f"patches_{padding}",
        lambda x, p=padding: tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 2, 1], [1, 1, 2, 1], p),
        IMAGE,
    )

# ---- normalisation
case(
    "fused_batch_norm",
    lambda x: tf.compat.v1.nn.fused_batch_norm(
        x, positive(4), normal(4), normal(4), positive(4), epsilon=0.01, is_training=False
    )[0],
    IMAGE,
)
case(
    "fused_batch_norm_training",
    lambda x: tf.compat.v1.nn.fused_batch_norm(x, positive(4), normal(4), epsilon=0.01)[0],
    IMAGE,
)
for version in (raw.FusedBatchNorm, raw.FusedBatchNormV3):
    case(
        f"batch_statistics_{version.__name__}",
        lambda x, o=version: o(x=x, scale=positive(4), offset=normal(4), mean=[], variance=[], is_training=True)[:3],
        IMAGE,
    )
case(
    "batch_statistics_moved",
    lambda x: raw.FusedBatchNormV3(
        x=x, scale=positive(4), offset=normal(4), mean=normal(4), variance=positive(4), exponential_avg_factor=0.3
    )[:3],
    IMAGE,
)
case(
    "batch_statistics_of_halves",
    lambda x: raw.FusedBatchNormV3(x=tf.cast(x, tf.float16), scale=positive(4), offset=normal(4), mean=[], variance=[])[
        1:3
    ],
    IMAGE,
)
case(
    "batch_normalization",
    lambda x: nn.batch_normalization(x, normal(4), positive(4), normal(4), positive(4), 1e-3),
    IMAGE,
)
case("lrn", lambda x: nn.local_response_normalization(x, 2, 1.5, 0.3, 0.6), normal(2, 4, 5, 8))
case("lrn_defaults", lambda x: nn.local_response_normalization(x), normal(2, 4, 5, 16))
case("softmax", lambda x: nn.softmax(x), normal(3, 7))
case("softmax_axis", lambda x: nn.softmax(x, axis=1), IMAGE)
case("log_softmax", lambda x: nn.log_softmax(x), normal(3, 7))
case("l2_normalize", lambda x: nn.l2_normalize(x, -1), IMAGE)
case("l2_loss", lambda x: nn.l2_loss(x), IMAGE)

# ---- pooling
for padding in ("SAME", "VALID"):
    for k, s in ((2, 2), (3, 2), (3, 1), (1, 2)):
        case(f"max_pool_{k}_{s}_{padding}", lambda x, k=k, s=s, p=padding: nn.max_pool2d(x, k, s, p), IMAGE)
        case(f"avg_pool_{k}_{s}_{padding}", lambda x, k=k, s=s, p=padding: nn.avg_pool2d(x, k, s, p), IMAGE)
    case(f"max_pool_3d_{padding}", lambda x, p=padding: nn.max_pool3d(x, 2, 2, p), normal(1, 5, 6, 7, 3))
    case(f"avg_pool_3d_{padding}", lambda x, p=padding: nn.avg_pool3d(x, 3, 2, p), normal(1, 5, 6, 7, 3))
    for batch in (False, True):
        case(
            f"max_pool_argmax_{padding}_{batch}",
            lambda x, p=padding, b=batch: nn.max_pool_with_argmax(x, 2, 2, p, include_batch_in_index=b),
            normal(2, 6, 8, 3),
        )
case("max_pool_explicit", lambda x: nn.max_pool2d(x, 3, 2, [[0, 0], [1, 0], [1, 1], [0, 0]]), positive(2, 9, 8, 4))
case("max_pool_v2", lambda x: raw.MaxPoolV2(input=x, ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding="SAME"), IMAGE)

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

# ---- shapes and movement
case("reshape", lambda x: tf.reshape(x, [4, -1]), normal(2, 6, 2))
case("reshape_flat", lambda x: tf.reshape(x, [-1]), normal(2, 6, 2))
case("reshape_by_shape", lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), normal(2, 6, 2))
case("squeeze", lambda x: tf.squeeze(x), normal(2, 1, 3, 1))
case("squeeze_axis", lambda x: tf.squeeze(x, [-1]), normal(2, 1, 3, 1))
case("expand_dims", lambda x: tf.expand_dims(tf.expand_dims(x, -1), 0), normal(2, 3))
case("transpose", lambda x: tf.transpose(x, [2, 0, 1]), normal(2, 3, 4))
case("transpose_reverse", lambda x: tf.transpose(x), normal(2, 3, 4))
case("concat", lambda x, y: tf.concat([x, y, x], -1), normal(2, 3), normal(2, 5))
case("stack", lambda x, y: tf.stack([x, y], 1), normal(2, 3), normal(2, 3) + 1)
case("unstack", lambda x: tf.unstack(x, axis=1)[1:], normal(2, 3, 2))
case("split", lambda x: tf.split(x, 3, 1), normal(2, 6))
case("split_sizes", lambda x: tf.split(x, [1, -1, 2], 1), normal(2, 6))
case("tile", lambda x: tf.tile(x, [2, 1, 3]), normal(2, 3, 1))
case("broadcast_to", lambda x: tf.broadcast_to(x, [4, 2, 3]), normal(2, 1))
case("fill", lambda x: tf.fill([2, 3], x), np.float32(2.5).reshape(()))
case("fill_by_shape", lambda x: tf.fill(tf.shape(x), 1.5) * x, normal(2, 3))
case("range", lambda x: x + tf.range(4.0), normal(3, 4))
case("linspace", lambda x: x + tf.linspace(0.1, 0.9, 4), normal(3, 4))
case("pad", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 3]]), normal(2, 3, 4))
case("pad_value", lambda x: tf.pad(x, [[1, 0], [1, 2], [0, 3]], constant_values=-7.0), normal(2, 3, 4))
case("pad_reflect", lambda x: tf.pad(x, [[0, 0], [1, 2], [2, 1]], "REFLECT"), normal(2, 3, 4))
case("pad_symmetric", lambda x: tf.pad(x, [[2, 0], [1, 3], [2, 1]], "SYMMETRIC"), normal(2, 3, 4))
case("slice", lambda x: tf.slice(x, [0, 1, 2], [2, -1, 1]), normal(2, 3, 4))
case("reverse", lambda x: tf.reverse(x, [0, -1]), normal(2, 3, 4))
case("reverse_sequence", lambda x: tf.reverse_sequence(x, [2, 3], seq_axis=1, batch_axis=0), normal(2, 4, 3))
case("roll", lambda x: tf.roll(x, [1, -2], [0, 1]), normal(3, 5))
case("space_to_depth", lambda x: nn.space_to_depth(x, 2), normal(2, 4, 6, 3))
case("depth_to_space", lambda x: nn.depth_to_space(x, 2), normal(2, 4, 6, 8))
case("space_to_batch", lambda x: tf.space_to_batch(x, [2, 3], [[0, 1], [2, 2]]), normal(2, 5, 5, 3))
case("batch_to_space", lambda x: tf.compat.v1.batch_to_space_nd(x, [2, 3], [[0, 1], [2, 1]]), normal(12, 3, 3, 2))
case("band_part", lambda x: tf.linalg.band_part(x, 1, 2), normal(2, 5, 6))
case("band_part_lower", lambda x: tf.linalg.band_part(x, -1, 0), normal(5, 6))

SLICES: dict[str, Callable[[Any], Any]] = {
    "part": lambda x: x[1:3, :, 2:],
    "negative": lambda x: x[-2:, :-1],
    "step": lambda x: x[::2, 1::2],
    "backwards": lambda x: x[::-1, ::-2],
    "backwards_part": lambda x: x[2:0:-1],
    "shrink": lambda x: x[1, :, -1],
    "new_axis": lambda x: x[:, tf.newaxis, 1:, tf.newaxis],
    "ellipsis": lambda x: x[..., 1:3],
    "ellipsis_new": lambda x: x[1, ..., tf.newaxis, 0],
    "empty": lambda x: x[2:1],
    "by_shape": lambda x: x[: tf.shape(x)[1], tf.shape(x)[0] - 3],
}
for name, function in SLICES.items():
    case(f"strided_slice_{name}", function, normal(4, 3, 5))

# ---- indexing
case("gather", lambda x: tf.gather(x, [[0, 2], [1, 1]], axis=1), normal(3, 4, 5))
case("gather_scalar", lambda x: tf.gather(x, 2, axis=-1), normal(3, 4, 5))
case("gather_batch", lambda x: tf.gather(x, [[0, 2], [1, 1], [3, 0]], axis=1, batch_dims=1), normal(3, 4, 5))
case("gather_batch_far", lambda x: tf.gather(x, [[0, 2], [1, 1], [3, 0]], axis=2, batch_dims=1), normal(3, 4, 5))
case("gather_nd", lambda x: tf.gather_nd(x, [[0, 1], [2, 3]]), normal(3, 4, 5))
case("scatter_nd", lambda x: tf.scatter_nd([[1], [3], [1]], x, [5, 4]), normal(3, 4))
case("tensor_scatter", lambda x: tf.tensor_scatter_nd_update(x, [[1], [0]], [[9.0] * 4, [8.0] * 4]), normal(3, 4))
case("tensor_scatter_sub", lambda x: tf.tensor_scatter_nd_sub(x, [[1], [1]], [[9.0] * 4, [8.0] * 4]), normal(3, 4))
case("one_hot", lambda x: tf.one_hot(x, 4, 2.0, -1.0), np.int32([0, 3, 4, -1, -5, 2]))
case("one_hot_axis", lambda x: tf.one_hot(x, 4, axis=0), integers(0, 4, 3, 2))
case("top_k", lambda x: tf.math.top_k(x, 3), normal(3, 7))
case("where_indices", lambda x: tf.where(x > 0), normal(3, 4))
case("unique", lambda x: tf.unique(x), np.int32([4, 2, 4, 1, 2, 9]))
case("embedding", lambda i: nn.embedding_lookup(normal(7, 3), i), integers(0, 7, 2, 4))
case("dynamic_stitch", lambda x, y: tf.dynamic_stitch([[0, 3], [1, 2]], [x, y]), normal(2, 3), normal(2, 3) + 1)

# ---- resizing
for size in ((18, 16), (5, 3), (9, 8), (13, 7)):
    for align, half in ((False, False), (True, False), (False, True)):
        flags = {"align_corners": align, "half_pixel_centers": half}
        label = f"{size[0]}x{size[1]}_{align}_{half}"
        case(
            f"bilinear_{label}",
            lambda x, s=size, f=flags: raw.ResizeBilinear(images=x, size=s, **f),
            IMAGE,
        )
        case(
            f"nearest_{label}",
            lambda x, s=size, f=flags: raw.ResizeNearestNeighbor(images=x, size=s, **f),
            IMAGE,
        )
case("area", lambda x: raw.ResizeArea(images=x, size=[4, 3]), IMAGE)
case("area_larger", lambda x: raw.ResizeArea(images=x, size=[13, 12]), IMAGE)

# ---- detection, quantisation, what the optimiser of TensorFlow makes
BOXES = np.float32([[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.0, 1.0], [0.5, -0.3, 1.2, 0.5], [0.9, 0.1, 0.2, 0.7]])
for method in ("bilinear", "nearest"):
    for size in ((5, 4), (1, 3)):
        case(
            f"crop_and_resize_{method}_{size[0]}",
            lambda x, b, m=method, s=size: tf.image.crop_and_resize(x, b, [0, 1, 1, 0], s, m, 7.0),
            IMAGE,
            BOXES,
        )
CORNERS = np.sort(np.random.default_rng(5).random((20, 2, 2)), 1).reshape(20, 4).astype(np.float32)
SCORES = np.random.default_rng(6).random(20).astype(np.float32)
case("non_max_suppression", lambda b, s: tf.image.non_max_suppression(b, s, 6, 0.4), CORNERS, SCORES)
case("non_max_suppression_scores", lambda b, s: tf.image.non_max_suppression(b, s, 15, 0.6, 0.3), CORNERS, SCORES)
case(
    "non_max_suppression_padded",
    lambda b, s: raw.NonMaxSuppressionV4(
        boxes=b, scores=s, max_output_size=18, iou_threshold=0.3, score_threshold=0.1, pad_to_max_output_size=True
    ),
    CORNERS,
    SCORES,
)
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
    function, arrays = CASES[name]
    agree(tmp_path / "model.pb", function, *arrays, rtol=2e-5, atol=2e-5)


FREE: dict[str, Case] = {
    "shape_n": (lambda x, y: raw.ShapeN(input=[x, y]), [normal(3, 4), normal(2)]),
    "size_rank": (lambda x: tf.size(x) + tf.rank(x), [normal(3, 4)]),
    "reshape": (lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), [normal(3, 2, 4)]),
    "fill": (lambda x: tf.fill([tf.shape(x)[0], 2], 1.5), [normal(3, 2, 4)]),
    "split_rest": (lambda x: tf.split(x, [1, -1], 0), [normal(3, 2)]),
    "slice": (lambda x: tf.slice(x, [1, 0], [-1, 2]), [normal(3, 4)]),
    "resize": (lambda x: raw.ResizeBilinear(images=x, size=tf.shape(x)[1:3] * 2), [IMAGE]),
    "conv2d": (lambda x: nn.conv2d(x, normal(3, 3, 4, 5), 2, "SAME"), [IMAGE]),
    "max_pool": (lambda x: nn.max_pool2d(x, 3, 2, "SAME"), [IMAGE]),
    "atrous": (lambda x: nn.atrous_conv2d(x, normal(3, 3, 4, 5), 2, "SAME"), [IMAGE]),
    "transposed": (
        lambda x: nn.conv2d_transpose(
            x, normal(3, 3, 5, 4), [tf.shape(x)[0], 2 * tf.shape(x)[1], 2 * tf.shape(x)[2], 5], 2, "SAME"
        ),
        [IMAGE],
    ),
    "transposed_valid": (
        lambda x: nn.conv2d_transpose(
            x, normal(3, 3, 5, 4), [tf.shape(x)[0], 2 * tf.shape(x)[1] + 2, 2 * tf.shape(x)[2] + 1, 5], 2, "VALID"
        ),
        [IMAGE],
    ),
    "space_to_batch": (lambda x: tf.space_to_batch(x, [3, 2], [[0, 0], [0, 0]]), [IMAGE]),
    "depth_to_space": (lambda x: nn.depth_to_space(x, 2), [IMAGE]),
    "tile": (lambda x: tf.tile(x, [1, tf.shape(x)[0]]), [normal(3, 4)]),
    "range": (lambda x: tf.cast(tf.range(tf.shape(x)[0]), tf.float32)[:, tf.newaxis] + x, [normal(3, 4)]),
    "one_hot": (lambda x: tf.one_hot(x, tf.reduce_max(x) + 1), [np.int32([1, 0, 3])]),
    "where": (lambda x: tf.gather_nd(x, tf.where(x > 0)), [normal(3, 4)]),
    "softmax": (lambda x: nn.softmax(tf.reshape(x, [tf.shape(x)[0], -1])), [IMAGE]),
}


@pytest.mark.parametrize("name", FREE)
def test_operator_with_free_sizes(name: str, tmp_path: Path) -> None:
    function, arrays = FREE[name]
    free = range(min(3, arrays[0].ndim))
    agree(tmp_path / "model.pb", function, *arrays, free=free, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("form", ["half_pixel_centers", "align_corners", None])
@pytest.mark.parametrize("size", [(18, 16), (13, 7)])
def test_bicubic(form: str | None, size: tuple[int, int], known: bool, tmp_path: Path) -> None:
    # TensorFlow takes its coefficients from a table of 1024 steps; without sizes we have only the exact polynomial.
    def function(x: Any) -> Any:
        return raw.ResizeBicubic(images=x, size=size, **({form: True} if form else {}))

    tolerance = {"rtol": 1e-5, "atol": 1e-5} if known else {"rtol": 1e-3, "atol": 5e-3}
    agree(tmp_path / "model.pb", function, IMAGE, free=() if known else (1, 2), **tolerance)
