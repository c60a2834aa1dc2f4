"""Rows in groups, diagonals, bounds and sampling by kernels, against TensorFlow: empty groups, odd shapes and types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_graphs import agree  # noqa: E402  (after the skip)

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
RNG = np.random.default_rng(8)
GROUPS = np.int32([2, 0, 2, -1, 5, 0])
SORTED = np.int32([0, 0, 2, 2, 2, 5])
NONE = np.zeros(0, np.int32)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


ROWS, SQUARE, TALL = normal(6, 3), normal(2, 4, 4), normal(2, 5, 3)
COUNTS = RNG.integers(-9, 9, (6, 2)).astype(np.int32)

Case = tuple[Callable[..., Any], list[np.ndarray]]
CASES: dict[str, Case] = {}

for kind in ("Sum", "Prod", "Max", "Min"):
    unsorted = getattr(raw, f"UnsortedSegment{kind}")
    CASES[f"unsorted_{kind}"] = (lambda x, i, f=unsorted: f(data=x, segment_ids=i, num_segments=7), [ROWS, GROUPS])
    CASES[f"unsorted_{kind}_of_integers"] = (CASES[f"unsorted_{kind}"][0], [COUNTS, GROUPS])
    CASES[f"unsorted_{kind}_of_nothing"] = (CASES[f"unsorted_{kind}"][0], [ROWS[:0], NONE])
    CASES[f"unsorted_{kind}_by_matrix"] = (CASES[f"unsorted_{kind}"][0], [ROWS, RNG.integers(0, 7, (6, 3))])
    inorder = getattr(raw, f"Segment{kind}")
    CASES[f"sorted_{kind}"] = (lambda x, i, f=inorder: f(data=x, segment_ids=i), [ROWS, SORTED])
CASES["sorted_mean"] = (lambda x, i: raw.SegmentMean(data=x, segment_ids=i), [ROWS, SORTED])
CASES["sorted_sum_of_vector"] = (lambda x, i: raw.SegmentSum(data=x, segment_ids=i), [ROWS[:, 0], SORTED])
CASES["sorted_sum_of_nothing"] = (lambda x, i: raw.SegmentSum(data=x, segment_ids=i), [ROWS[:0], NONE])
for kind in ("Sum", "Mean", "SqrtN"):
    for name, more in (("", {}), ("WithNumSegments", {"num_segments": 7})):
        function = getattr(raw, f"SparseSegment{kind}{name}")
        CASES[f"sparse_{kind}{name}"] = (
            lambda x, at, i, f=function, m=more: f(data=x, indices=at, segment_ids=i, **m),
            [ROWS, np.int32([5, 0, 0, 2, 1, 1]), SORTED],
        )
CASES["partition"] = (lambda x, i: tf.dynamic_partition(x, i, 4), [ROWS, np.int32([3, 0, 3, 1, 0, 0])])
CASES["partition_by_matrix"] = (
    lambda x, i: tf.dynamic_partition(x, i, 2),
    [TALL, RNG.integers(0, 2, (2, 5), np.int32)],
)
CASES["stitch"] = (
    lambda a, b, x, y: tf.dynamic_stitch([a, b], [x, y]),
    [np.int32([4, 1]), np.int32([[0, 2], [3, 1]]), normal(2, 3), normal(2, 2, 3)],
)
for k in (0, 1, -2):
    CASES[f"diag_{k}"] = (lambda x, k=k: tf.linalg.diag(x, k=k, padding_value=-1.5), [normal(2, 3)])
    CASES[f"diag_part_{k}"] = (lambda x, k=k: tf.linalg.diag_part(x, k=k), [SQUARE])
    CASES[f"diag_part_{k}_of_tall"] = (lambda x, k=k: tf.linalg.diag_part(x, k=k), [TALL])
    CASES[f"diag_part_{k}_of_wide"] = (lambda x, k=k: tf.linalg.diag_part(x, k=k), [TALL.transpose(0, 2, 1)])
    for name, x, count in (("tall", TALL, min(5 + min(k, 0), 3 - max(k, 0))), ("square", SQUARE, 4 - abs(k))):
        CASES[f"set_diag_{k}_of_{name}"] = (lambda x, v, k=k: tf.linalg.set_diag(x, v, k=k), [x, normal(2, count)])
CASES["diag_in_larger"] = (lambda x: tf.linalg.diag(x, k=1, num_rows=5), [normal(3)])
CASES["diag_in_wider"] = (lambda x: tf.linalg.diag(x, k=-1, num_cols=6), [normal(3)])
CASES["old_diag"] = (lambda x: raw.MatrixDiagPart(input=raw.MatrixDiag(diagonal=x) + 1), [normal(2, 3)])
CASES["old_set_diag"] = (lambda x, v: raw.MatrixSetDiag(input=x, diagonal=v), [SQUARE, normal(2, 4)])
CASES["diag_of_bools"] = (lambda x: tf.linalg.diag(x), [np.array([True, False, True])])
CASES["tensor_diag"] = (lambda x: tf.linalg.tensor_diag(x), [normal(2, 3)])
CASES["tensor_diag_part"] = (lambda x: tf.linalg.tensor_diag_part(x), [normal(2, 3, 2, 3)])
for exclusive in (False, True):
    CASES[f"cumprod_{exclusive}"] = (lambda x, e=exclusive: tf.math.cumprod(x, -1, e, not e), [ROWS])
for side in ("left", "right"):
    CASES[f"bounds_{side}"] = (
        lambda x, v, s=side: tf.searchsorted(x, v, s, tf.int64),
        [np.sort(RNG.integers(0, 6, (2, 7)), 1).astype(np.float32), RNG.integers(-1, 8, (2, 5)).astype(np.float32)],
    )
for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"):
    for antialias in (False, True):
        CASES[f"sampled_{kernel}_{antialias}"] = (
            lambda x, k=kernel, a=antialias: raw.ScaleAndTranslate(
                images=x, size=[5, 14], scale=[0.45, 2.1], translation=[0.3, -1.0], kernel_type=k, antialias=a
            ),
            [normal(1, 11, 7, 2)],
        )
CASES["contrast"] = (lambda x: tf.image.adjust_contrast(x, 1.7), [normal(2, 5, 6, 3)])


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, tmp_path: Path) -> None:
    function, arrays = CASES[name]
    agree(tmp_path / "model.pb", function, *arrays, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(("sampled", "sorted_sum_of_n", "tensor_diag"))])
def test_operator_with_free_sizes(name: str, tmp_path: Path) -> None:
    function, arrays = CASES[name]
    agree(tmp_path / "model.pb", function, *arrays, free=(0, 1, 2), rtol=1e-5, atol=3e-5)
