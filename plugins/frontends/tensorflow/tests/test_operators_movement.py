"""Operators that move and pick elements, against TensorFlow itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_operators import Cases, integers, normal  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
nn = tf.nn
CASES = Cases()
case = CASES.add

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


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, tmp_path: Path) -> None:
    CASES.check(name, tmp_path)
