"""Operators on images against TensorFlow itself: one small graph an operator and variant, at levels off and full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_graphs import agree  # noqa: E402  (after the skip)
from plugins.frontends.tensorflow.tests.tf_operators import IMAGE, Cases, normal, positive  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
nn = tf.nn
CASES = Cases()
case = CASES.add

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

# ---- detection
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


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, tmp_path: Path) -> None:
    CASES.check(name, tmp_path)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("form", ["half_pixel_centers", "align_corners", None])
@pytest.mark.parametrize("size", [(18, 16), (13, 7)])
def test_bicubic(form: str | None, size: tuple[int, int], known: bool, tmp_path: Path) -> None:
    # TensorFlow takes its coefficients from a table of 1024 steps; without sizes we have only the exact polynomial.
    def function(x: Any) -> Any:
        return raw.ResizeBicubic(images=x, size=size, **({form: True} if form else {}))

    tolerance = {"rtol": 1e-5, "atol": 1e-5} if known else {"rtol": 1e-3, "atol": 5e-3}
    agree(tmp_path / "model.pb", function, IMAGE, free=() if known else (1, 2), **tolerance)
