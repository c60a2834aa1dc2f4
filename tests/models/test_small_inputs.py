"""Pooling windows that are larger than their input give what onnxruntime gives, not an empty tensor and then NaN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autofusion as af

ort = pytest.importorskip("onnxruntime")


def write(path: Path, op: str, attrs: dict[str, object]) -> None:
    nodes = [
        helper.make_node(op, ["x"], ["p"], name="pool", **attrs),
        helper.make_node("ReduceMean", ["p"], ["y"], axes=[2, 3], keepdims=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("p", "y")]
    graph = helper.make_graph(nodes, "g", [x], outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("size", "kernel", "strides", "more"),
    [
        ((1, 9), [2, 2], [2, 2], {}),
        ((1, 9), [2, 2], [2, 2], {"auto_pad": "VALID"}),
        ((1, 9), [2, 2], [1, 1], {}),
        ((2, 3), [5, 5], [5, 5], {}),
        ((2, 3), [5, 5], [3, 3], {}),
        ((2, 2), [5, 5], [2, 2], {"pads": [1, 0, 1, 0]}),
        ((1, 9), [3, 3], [3, 3], {"ceil_mode": 1}),
    ],
)
def test_windows_larger_than_the_input(
    tmp_path: Path, op: str, size: tuple[int, int], kernel: list[int], strides: list[int], more: dict[str, object]
) -> None:
    path = tmp_path / "m.onnx"
    write(path, op, {"kernel_shape": kernel, "strides": strides, **more})
    x = np.random.default_rng(0).standard_normal((2, 3, *size)).astype(np.float32)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    expected = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for level in ("off", "full"):
        found = af.compile(path, level=level, threads=1).run({"x": x})
        for got, want in zip(found.values(), expected, strict=True):
            assert got.shape == want.shape
            if expected[0].size:  # what the mean of nothing is, nobody says
                assert np.allclose(got, want, atol=1e-6)
