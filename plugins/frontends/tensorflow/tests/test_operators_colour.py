"""Colour spaces, dilation and projective transforms against TensorFlow itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_operators import IMAGE, Cases, normal  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
CASES = Cases()
case = CASES.add

COLOURS = np.random.default_rng(0).random((2, 5, 6, 3), np.float32)
COLOURS[0, 0] = [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 1], [0.2, 0.7, 0.7]]
case("rgb_to_hsv", tf.image.rgb_to_hsv, COLOURS)
case("hsv_to_rgb", tf.image.hsv_to_rgb, COLOURS)
case("grayscale", tf.image.rgb_to_grayscale, COLOURS)
case("yuv", lambda x: tf.image.yuv_to_rgb(tf.image.rgb_to_yuv(x)), COLOURS)
for amount in (0.3, -0.45, 0.0):
    case(f"hue_{amount}", lambda x, a=amount: raw.AdjustHue(images=x, delta=a), COLOURS)
for factor in (0.4, 3.0):
    case(f"saturation_{factor}", lambda x, f=factor: raw.AdjustSaturation(images=x, scale=f), COLOURS)
    case(f"contrast_{factor}", lambda x, f=factor: tf.image.adjust_contrast(x, f), COLOURS)

for padding in ("SAME", "VALID"):
    for strides, rates in (([1, 1], [1, 1]), ([2, 3], [1, 1]), ([1, 1], [2, 2])):

        def dilated(x, f, padding=padding, strides=strides, rates=rates):
            return raw.Dilation2D(input=x, filter=f, strides=[1, *strides, 1], rates=[1, *rates, 1], padding=padding)

        case(f"dilation_{padding}_{strides}_{rates}", dilated, IMAGE, normal(3, 2, 4))
case("erosion", lambda x, f: tf.nn.erosion2d(x, f, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]), IMAGE, normal(3, 3, 4))

TRANSFORMS = np.float32([[0.9, 0.2, -1.3, -0.1, 1.1, 0.7, 0.01, -0.02], [1.7, -0.3, 2.2, 0.4, 1.6, -3.1, 0, 0]])
for mode in ("CONSTANT", "NEAREST", "REFLECT", "WRAP"):
    for interpolation in ("NEAREST", "BILINEAR"):

        def seen(x, t, mode=mode, interpolation=interpolation):
            return raw.ImageProjectiveTransformV3(
                images=x,
                transforms=t,
                output_shape=[7, 11],
                fill_value=0.3,
                interpolation=interpolation,
                fill_mode=mode,
            )

        case(f"projective_{mode}_{interpolation}", seen, IMAGE, TRANSFORMS)
case(
    "projective_of_one",
    lambda x: raw.ImageProjectiveTransformV2(
        images=x, transforms=TRANSFORMS[:1], output_shape=[9, 8], interpolation="BILINEAR"
    ),
    IMAGE,
)
case(
    "projective_integers",
    lambda x: raw.ImageProjectiveTransformV2(
        images=tf.cast(x * 99, tf.int32), transforms=TRANSFORMS, output_shape=[9, 8], interpolation="NEAREST"
    ),
    IMAGE,
)


@pytest.mark.parametrize("free", [(), (0,)], ids=["static", "free"])
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, free: tuple[int, ...], tmp_path: Path) -> None:
    CASES.check(name, tmp_path, free if "dilation" not in name and "erosion" not in name else ())
