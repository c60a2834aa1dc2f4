"""Operators whose leading sizes are open, against TensorFlow itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_operators import IMAGE, Cases, normal  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
nn = tf.nn

CASES = Cases(
    {
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
)


@pytest.mark.parametrize("name", CASES)
def test_operator_with_free_sizes(name: str, tmp_path: Path) -> None:
    CASES.check(name, tmp_path, free=range(3))
