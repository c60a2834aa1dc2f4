"""Frozen graphs of `keras.applications`: they load, run at every level, and agree with TensorFlow.

At level full no normalisation is left as arithmetic of its own, and of the Transposes between channels last and
channels first at most one remains at each end.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import autofusion as af  # noqa: E402
from plugins.frontends.tensorflow.tests import keras_models  # noqa: E402  (after the skip)
from plugins.frontends.tensorflow.tests.fused_graph import channel_arithmetic, nodes_with_bodies, transposes_apart  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import expected  # noqa: E402

pytestmark = pytest.mark.tensorflow

ROWS = "ConvNeXt"
"""These alternate between convolutions and layers over channels-last rows: Transposes stay between them."""
LEVELS = ("off", "basic", "full")
MAX_OVER_RANGE = 1e-4
MEAN_RELATIVE = 1e-5


def _params(levels: tuple[str, ...] = ("",)) -> list[Any]:
    return [
        pytest.param(
            *([name, level] if level else [name]),
            id=f"{name}-{level}" if level else name,
            marks=[pytest.mark.slow] if application.slow else [],
        )
        for name, application in keras_models.MODELS.items()
        for level in levels
    ]


def _image(name: str) -> np.ndarray:
    return keras_models.MODELS[name].image()


@cache
def _expected(name: str) -> dict[str, np.ndarray]:
    return expected(keras_models.path_of(name), {"input": _image(name)})


@pytest.mark.parametrize(("name", "level"), _params(LEVELS))
def test_agrees_with_tensorflow(name: str, level: str) -> None:
    session = af.compile(keras_models.path_of(name), level=level, threads=2)
    got, wanted = session.run({"input": _image(name)}), _expected(name)
    assert list(got) == list(wanted)
    for key, want in wanted.items():
        value = np.asarray(got[key])
        assert (value.dtype, value.shape) == (want.dtype, want.shape)
        difference = np.abs(value.astype(np.float64) - want)
        largest = float(difference.max() / np.ptp(want))
        kept = np.abs(want) > 1e-3 * np.ptp(want)
        mean = float((difference[kept] / np.abs(want[kept])).mean())
        assert largest <= MAX_OVER_RANGE, f"'{key}': largest difference over range {largest:.2e}"
        assert mean <= MEAN_RELATIVE, f"'{key}': mean relative difference {mean:.2e}"


@pytest.mark.parametrize("name", [p for p in _params() if not p.values[0].startswith(ROWS)])
def test_transposes_vanish(name: str) -> None:
    session = af.compile(keras_models.path_of(name), level="full", threads=2)
    left = transposes_apart(session.plan.graph)
    assert left == [], f"Transposes that are neither at an input nor at an output: {left}"


# Normalisation before the first convolution pads with zeros: what it adds does not reach them, so it cannot be folded.
# DenseNet, ResNet V2 and the like normalise what several layers read, before the activation.
FOLDED = ("ResNet50", "MobileNetV2", "EfficientNetB0", "InceptionV3", "MobileNet", "ResNet101", "Xception")


@pytest.mark.parametrize("name", [p for p in _params() if p.values[0] in FOLDED])
def test_normalisation_is_folded(name: str) -> None:
    path = keras_models.path_of(name)
    before = channel_arithmetic(af.compile(path, level="off", threads=2).plan.graph)
    after = channel_arithmetic(af.compile(path, level="full", threads=2).plan.graph)
    assert len(before) > 40
    assert after == [], f"{len(after)} of {len(before)} are left"


def test_bodies_are_looked_into() -> None:
    graph = af.compile(keras_models.path_of("MobileNetV2"), level="full", threads=2).plan.graph
    assert sum(node.op == "Conv" for node in nodes_with_bodies(graph)) == 52
