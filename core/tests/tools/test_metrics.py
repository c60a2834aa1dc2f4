"""Metrics count what they say."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.errors import OptionError
from autofusion.tools.metrics import make_metric
from autofusion.tools.metrics.characters import decode


def test_top_k() -> None:
    scores = np.float32([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4]])
    one, five = make_metric("top1"), make_metric("top5")
    for metric in (one, five):
        metric.add({"y": scores}, {"label": np.array([1, 2])})
    assert one.value() == 0.5 and five.value() == 1.0
    with pytest.raises(OptionError, match=r"needs an array 'label'.*found 'text'"):
        one.add({"y": scores}, {"text": np.array("a")})


def test_characters() -> None:
    pytest.importorskip("rapidfuzz")
    assert decode(np.array([0, 1, 1, 0, 1, 2, 2, 0]), ["", "a", "b"]) == "aab"
    metric = make_metric("characters", charset=["a", "b"])
    steps = np.eye(4, dtype=np.float32)[[[1, 0, 2, 3]]]
    metric.add({"y": steps}, {"text": np.array("ab ")})
    assert metric.value() == 1.0
    metric.add({"y": steps}, {"text": np.array("bb ")})
    assert metric.value() == pytest.approx(1 - 1 / 6)
    with pytest.raises(OptionError, match="the model has 6 classes, the charset 2 characters"):
        metric.add({"y": np.zeros((1, 2, 6))}, {"text": np.array("a")})
    with pytest.raises(OptionError, match=r"charset\.txt"):
        make_metric("characters")


def test_mean_average_precision() -> None:
    pytest.importorskip("faster_coco_eval")
    truth = {"boxes": np.float32([[10, 10, 50, 50], [60, 60, 90, 90]]), "classes": np.array([1, 2])}
    perfect = np.float32([[1, 0.9, 10, 10, 50, 50], [2, 0.8, 60, 60, 90, 90], [-1, 0, 0, 0, 0, 0]])
    metric = make_metric("map")
    metric.add({"boxes": perfect}, truth)
    assert metric.value() == pytest.approx(1.0)
    metric = make_metric("map")
    metric.add({"boxes": perfect[:1]}, truth)
    assert metric.value() == pytest.approx(0.5)
    metric = make_metric("map")
    metric.add(
        {"boxes": np.float32([[1, 0.9, 12, 12, 50, 50]])}, {"boxes": truth["boxes"][:1], "classes": np.array([1])}
    )
    assert 0.7 < metric.value() < 0.95, "an overlap of 0.9 counts at the lower thresholds only"
    with pytest.raises(OptionError, match="no output has rows"):
        metric.add({"y": np.zeros((3, 4))}, truth)


def test_a_function_of_ones_own() -> None:
    metric = make_metric("operator:eq")
    metric.add({"a": 1}, {"a": 1})
    metric.add({"a": 1}, {"a": 2})
    assert metric.value() == 0.5
    with pytest.raises(OptionError, match="cannot load 'operator:nothing'"):
        make_metric("operator:nothing")
    with pytest.raises(
        OptionError, match=r"unknown metric 'top2'.*did you mean 'top5' or 'top1'|unknown metric 'top2'"
    ):
        make_metric("top2")
