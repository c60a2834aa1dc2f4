"""Counting, decoding, losses against TensorFlow itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_operators import Cases, integers, normal, positive  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
CASES = Cases()
case = CASES.add

NUMBERS = integers(0, 9, 2, 12)
NONE = np.zeros(0, np.float32)
for binary in (False, True):
    case(
        f"dense_bincount_{binary}",
        lambda x, b=binary: raw.DenseBincount(input=x, size=6, weights=NONE, binary_output=b),
        NUMBERS,
    )
    case(
        f"dense_bincount_vector_{binary}",
        lambda x, b=binary: raw.DenseBincount(input=x, size=10, weights=NONE, binary_output=b),
        NUMBERS[0],
    )
    case(
        f"dense_bincount_weighted_{binary}",
        lambda x, w, b=binary: raw.DenseBincount(input=x, size=6, weights=w, binary_output=b),
        NUMBERS,
        normal(2, 12),
    )
case("bincount", lambda x: raw.Bincount(arr=x, size=7, weights=NONE), NUMBERS)
case("bincount_weighted", lambda x, w: raw.Bincount(arr=x, size=7, weights=w), NUMBERS, normal(2, 12))
case("bincount_of_its_own_size", lambda x: tf.math.bincount(x, minlength=3, maxlength=20), NUMBERS)
case("bincount_rows", lambda x: tf.math.bincount(x, axis=-1, minlength=12), NUMBERS)
case("histogram", lambda x: tf.histogram_fixed_width(x, [-1.0, 1.5], 7), normal(5, 6))
case("unique_with_counts", lambda x: list(tf.unique_with_counts(x)), NUMBERS[0])
case("unique_with_counts_64", lambda x: list(tf.unique_with_counts(x, tf.int64)), normal(4))
case("list_difference", lambda x, y: list(raw.ListDiff(x=x, y=y)), NUMBERS[0], NUMBERS[1, :4])
case("list_difference_of_none", lambda x, y: list(raw.ListDiff(x=x, y=y, out_idx=tf.int64)), NUMBERS[0], NUMBERS[0])
SCORES = normal(6, 5)
SCORES[4, 2], SCORES[5, 1] = np.nan, np.inf
for k in (1, 3, 9):
    case(
        f"in_top_{k}",
        lambda x, t, k=k: raw.InTopKV2(predictions=x, targets=t, k=k),
        SCORES,
        np.int32([0, 4, 7, -1, 1, 2]),
    )
case("in_top_of_version_1", lambda x, t: raw.InTopK(predictions=x, targets=t, k=2), normal(6, 5), integers(0, 5, 6))
for reverse in (False, True):
    case(f"nth_element_{reverse}", lambda x, r=reverse: raw.NthElement(input=x, n=2, reverse=r), normal(2, 3, 5))
case("nth_element_of_a_vector", lambda x, n: raw.NthElement(input=x, n=n), normal(5), np.int32(3).reshape(()))

LABELS = np.exp(normal(4, 5)) / np.exp(normal(4, 5)).sum(1, keepdims=True)
case("cross_entropy", lambda x, y: list(raw.SoftmaxCrossEntropyWithLogits(features=x, labels=y)), normal(4, 5), LABELS)
case(
    "sparse_cross_entropy",
    lambda x, y: list(raw.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y)),
    normal(4, 5),
    integers(0, 5, 4),
)
case(
    "keras_cross_entropy",
    lambda x, y: tf.nn.softmax_cross_entropy_with_logits(y, x),
    normal(2, 3, 5),
    np.abs(normal(2, 3, 5)),
)
case(
    "keras_sparse_cross_entropy",
    lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x),
    normal(4, 5),
    integers(0, 5, 4, dtype=np.int64),
)
case("sigmoid_cross_entropy", lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(y, x), normal(4, 5), LABELS)

LOGITS = np.round(normal(9, 3, 4) * 2)
LENGTHS = np.int32([9, 5, 0])


def decoded(x: Any, n: Any, merge: bool, blank: int) -> Any:
    sparse, probability = tf.nn.ctc_greedy_decoder(x, n, merge, blank)
    indices, values, shape = sparse[0].indices, sparse[0].values, sparse[0].dense_shape
    return [indices, values, shape, probability, tf.sparse.to_dense(sparse[0], default_value=-1)]


for merge in (False, True):
    for blank in (-1, 0, 2):
        case(f"ctc_{merge}_{blank}", lambda x, n, m=merge, b=blank: decoded(x, n, m, b), LOGITS, LENGTHS)
case("ctc_of_nothing", lambda x, n: decoded(x, n, True, -1), LOGITS, np.zeros(3, np.int32))
case(
    "sparse_to_dense_line",
    lambda v: raw.SparseToDense(sparse_indices=[1, 3], output_shape=[5], sparse_values=v, default_value=7.0),
    normal(2),
)
case(
    "sparse_to_dense_one",
    lambda v: raw.SparseToDense(
        sparse_indices=[[0, 1], [2, 0]], output_shape=[3, 2], sparse_values=v[0], default_value=0.5
    ),
    normal(2),
)

ROWS = np.int64([0, 3, 3, 4, 6])


def ragged(values: Any, splits: Any, *options: Any, **more: Any) -> Any:
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_tensor(*options, **more)


for limits in (None, [3, 2], [5, 4]):
    case(f"ragged_{limits}", lambda v, s, n=limits: ragged(v, s, -1.0, shape=n), normal(6), ROWS)
case("ragged", lambda v, s: ragged(v, s), normal(6), ROWS)
case("ragged_rows", lambda v, s: ragged(v, s), normal(6, 3), ROWS)
case(
    "ragged_row_numbers",
    lambda v, r: tf.RaggedTensor.from_value_rowids(v, r, nrows=5, validate=False).to_tensor(),
    positive(6),
    np.int64([0, 0, 1, 3, 3, 3]),
)


@pytest.mark.parametrize("free", [(), (0, 1)], ids=["static", "free"])
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, free: tuple[int, ...], tmp_path: Path) -> None:
    CASES.check(name, tmp_path, free)
