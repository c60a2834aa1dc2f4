"""The same network from ONNX and from TensorFlow: the same results, and the same number of fused sites of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("onnx")

import autofusion as af  # noqa: E402
from plugins.frontends.tensorflow.tests.fused_graph import nodes_with_bodies, site_kinds  # noqa: E402  (after the skip)
from plugins.frontends.tensorflow.tests.twins import OnnxLayers, TensorflowLayers, mobilenet_v2, resnet50  # noqa: E402

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


@pytest.mark.parametrize("network", [resnet50, mobilenet_v2])
def test_same_sites(network: Any, tmp_path: Path) -> None:
    first = af.compile(OnnxLayers().write(tmp_path / "twin.onnx", network), threads=2)
    second = af.compile(TensorflowLayers().write(tmp_path / "twin.pb", network), threads=2)
    image = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)
    (one,) = first.run({"x": image}).values()
    (two,) = second.run({"x": image.transpose(0, 2, 3, 1).copy()}).values()
    np.testing.assert_allclose(one, two, atol=1e-4 * np.ptp(one))
    kinds = site_kinds(first.plan.graph)
    assert kinds["conv"] > 40
    assert site_kinds(second.plan.graph) == kinds
    # Not only as many sites: as much inside them. One Transpose is the input's.
    of = [[n.op for s in (session.plan.graph,) for n in nodes_with_bodies(s)] for session in (first, second)]
    assert of[1].count("Transpose") == 1
    for op in ("Conv", "Relu", "Clip", "Add", "MaxPool"):
        assert of[0].count(op) == of[1].count(op), op
