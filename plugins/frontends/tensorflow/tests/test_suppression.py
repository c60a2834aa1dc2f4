"""Detection post-processing against TensorFlow, bit for bit: the boxes that stay are decided by comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import autofusion as af  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import expected, frozen, specs_of  # noqa: E402  (after the skip)

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(5)


def corners(*shape: int) -> np.ndarray:
    """Boxes [..., 4] of all orientations, some empty, many of which overlap."""
    low, size = RNG.uniform(-0.2, 1, (*shape, 2)), RNG.uniform(-0.1, 0.6, (*shape, 2))
    return np.concatenate([low, low + np.maximum(size, 0)], -1).astype(np.float32)


def scores(*shape: int, tied: bool) -> np.ndarray:
    """Scores, each another, or six values only."""
    if tied:
        return RNG.integers(-1, 5, shape).astype(np.float32) / 4
    return RNG.permutation(np.linspace(-1.5, 1, int(np.prod(shape)), dtype=np.float32)).reshape(shape)


def same(path: Path, function: Any, *inputs: list[np.ndarray], free: tuple[int, ...] = ()) -> None:
    """Both levels give TensorFlow's bits on each of ``inputs``."""
    frozen(path, function, specs_of(inputs[0], free))
    sessions = [af.compile(path, level=level, threads=1) for level in ("off", "full")]
    for arrays in inputs:
        feeds = {f"x{i}": x for i, x in enumerate(arrays)}
        wanted = expected(path, feeds)
        for session in sessions:
            got = session.run(feeds)
            for name, want in wanted.items():
                assert got[name].dtype == want.dtype
                np.testing.assert_array_equal(got[name], want, err_msg=name)


VARIANTS: list[tuple[int, int, int, int, int, dict[str, Any]]] = [
    # images, boxes, box sets, most of a class, most of all, options
    (1, 30, 1, 4, 10, {}),
    (2, 30, 3, 4, 10, {"clip_boxes": False}),
    (3, 12, 1, 20, 50, {"pad_per_class": True}),
    (2, 25, 3, 3, 100, {"pad_per_class": True, "clip_boxes": False, "iou_threshold": 0.0}),
    (2, 25, 1, 3, 100, {"pad_per_class": False, "iou_threshold": 1.0, "score_threshold": 0.3}),
    (2, 16, 3, 5, 2, {"score_threshold": 2.0}),
    (1, 16, 3, 5, 6, {"score_threshold": float("-inf"), "iou_threshold": 0.2}),
]


@pytest.mark.parametrize("free", [(), (0, 1)])
@pytest.mark.parametrize("at", range(len(VARIANTS)))
def test_combined_suppression(at: int, free: tuple[int, ...], tmp_path: Path) -> None:
    images, boxes, sets, most, total, options = VARIANTS[at]
    settings = {"iou_threshold": 0.5, "score_threshold": 0.0} | options

    def function(x: Any, s: Any) -> Any:
        return list(tf.image.combined_non_max_suppression(x, s, most, total, **settings))

    inputs = [[corners(images, boxes, sets), scores(images, boxes, 3, tied=False)] for _ in range(20)]
    same(tmp_path / "model.pb", function, *inputs, free=free)


@pytest.mark.parametrize("sets", [1, 2])
def test_equal_scores_keep_the_order_of_classes(sets: int, tmp_path: Path) -> None:
    def function(x: Any, s: Any) -> Any:
        return list(tf.image.combined_non_max_suppression(x, s, 8, 12, 0.4, 0.2))

    one = [scores(2, 16, 1, tied=False) for _ in range(40)]
    inputs = [[corners(2, 16, sets), np.concatenate([s, s], 2)] for s in one]
    same(tmp_path / "model.pb", function, *inputs)


def test_equal_scores_within_a_class_keep_the_order_of_boxes(tmp_path: Path) -> None:
    # TensorFlow leaves their order open: without overlap and with room for all, the same boxes stay.
    def function(x: Any, s: Any) -> Any:
        return list(tf.image.combined_non_max_suppression(x, s, 40, 90, 0.4, 0.2, clip_boxes=False))

    path = tmp_path / "model.pb"
    at = np.arange(80, dtype=np.float32).reshape(2, 40, 1, 1)
    x, s = np.concatenate([at, at, at + 0.5, at + 0.5], -1), scores(2, 40, 2, tied=True)
    frozen(path, function, specs_of([x, s]))
    wanted, got = expected(path, {"x0": x, "x1": s}), af.compile(path, threads=1).run({"x0": x, "x1": s})
    boxes, values, classes, valid = (got[name] for name in sorted(got))
    theirs = [wanted[name] for name in sorted(got)]
    np.testing.assert_array_equal(values, theirs[1])
    np.testing.assert_array_equal(valid, theirs[3])
    for image in range(2):
        rows = list(zip(-values[image], classes[image], boxes[image, :, 0], strict=True))
        there = zip(-theirs[1][image], theirs[2][image], theirs[0][image, :, 0], strict=True)
        assert rows[: valid[image]] == sorted(rows[: valid[image]])
        assert sorted(rows) == sorted(there)


def test_no_boxes_at_all(tmp_path: Path) -> None:
    def function(x: Any, s: Any) -> Any:
        return list(tf.image.combined_non_max_suppression(x, s, 8, 5, 0.4, 0.2))

    inputs = [[corners(2, count, 1), scores(2, count, 2, tied=False)] for count in (3, 0, 1)]
    same(tmp_path / "model.pb", function, *inputs, free=(1,))


@pytest.mark.parametrize("free", [(), (0,)])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("width", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("least", [0.0, 0.4, -2.0, 3.0])
def test_soft_suppression(least: float, width: float, padded: bool, free: tuple[int, ...], tmp_path: Path) -> None:
    def function(x: Any, s: Any) -> Any:
        return list(
            tf.raw_ops.NonMaxSuppressionV5(
                boxes=x,
                scores=s,
                max_output_size=9,
                iou_threshold=0.3,
                score_threshold=least,
                soft_nms_sigma=width,
                pad_to_max_output_size=padded,
            )
        )

    path = frozen(tmp_path / "model.pb", function, specs_of([corners(30), scores(30, tied=False)], free))
    sessions = [af.compile(path, level=level, threads=1) for level in ("off", "full")]
    for _ in range(10):
        # Lowered scores of less than 0 rise: which of them is tried first is TensorFlow's own affair.
        feeds = {"x0": corners(30), "x1": np.abs(scores(30, tied=False)) if width else scores(30, tied=False)}
        wanted = expected(path, feeds)
        for session in sessions:
            got = session.run(feeds)
            for name, want in wanted.items():
                assert got[name].dtype == want.dtype
                np.testing.assert_allclose(got[name], want, rtol=2e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("op", ["NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV5"])
def test_suppression_of_half_precision_and_of_what_just_reaches_the_threshold(op: str, tmp_path: Path) -> None:
    half = np.float16

    def function(x: Any, s: Any) -> Any:
        last = {"score_threshold": half(0)} if op[-1] > "2" else {}
        last |= {"soft_nms_sigma": half(0)} if op[-1] == "5" else {}
        value = getattr(tf.raw_ops, op)(boxes=x, scores=s, max_output_size=3, iou_threshold=half(0.5), **last)
        return list(value) if op[-1] == "5" else value

    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 0, 1, 0.75], [0, 0, 0, 0]], half)
    same(tmp_path / "model.pb", function, [boxes, np.array([0.9, 0.8, 0.7, 0.6], half)])
