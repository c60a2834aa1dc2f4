"""Models quantised by onnxruntime's own quantiser against onnxruntime with its optimisations off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autofusion as af
from agreement import errors, unoptimised
from encoder import save_encoder

pytest.importorskip("onnxruntime")

OVER_RANGE, RELATIVE = 1e-2, 2e-3
"""A float operator that rounds its last bit otherwise may move an activation to the next of 256 steps."""


def _quantised(folder: Path, weights: str, per_channel: bool, **sizes: int) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source, path = folder / "float.onnx", folder / "dynamic.onnx"
    save_encoder(source, **sizes)
    quantize_dynamic(source, path, weight_type=QuantType[weights], per_channel=per_channel)
    return path


@pytest.mark.parametrize("level", ["off", "basic", "full"])
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
def test_encoder(weights: str, per_channel: bool, level: str, tmp_path: Path) -> None:
    path = _quantised(tmp_path, weights, per_channel)
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 24, 64)).astype(np.float32)}
    expected, got = unoptimised(path, inputs)["y"], af.compile(path, level=level, threads=2).run(inputs)["y"]
    largest, relative = errors(got, expected)
    assert largest < OVER_RANGE and relative < RELATIVE, (largest, relative)
