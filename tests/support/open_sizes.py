"""A model of open sizes, and pictures for it, for tests of what a new size costs and gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import autofusion as af
from autofusion.ir.text import from_text
from autofusion.runtime.session import Session


def network() -> onnx.ModelProto:
    """A picture of open size becomes a sequence (sizes by Shape, Slice and Concat), which attends to itself."""
    rng = np.random.default_rng(2)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((rng.standard_normal(shape) * 0.1).astype(np.float32), name)

    def whole(name: str, *values: int) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(values, np.int64), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("Conv", ["r1", "w2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        node("Add", ["c2", "r1"], ["s"], "add"),
        node("Shape", ["s"], ["shape"], "shape"),
        node("Slice", ["shape", "0", "2"], ["head"], "slice"),
        node("Concat", ["head", "-1"], ["to"], "concat", axis=0),
        node("Reshape", ["s", "to"], ["flat"], "reshape"),
        node("Transpose", ["flat"], ["rows"], "transpose", perm=[0, 2, 1]),
        node("MatMul", ["rows", "w3"], ["m"], "matmul"),
        node("Add", ["m", "b3"], ["q"], "bias"),
        node("Transpose", ["q"], ["k"], "transpose2", perm=[0, 2, 1]),
        node("MatMul", ["q", "k"], ["scores"], "scores"),
        node("Softmax", ["scores"], ["p"], "softmax", axis=-1),
        node("MatMul", ["p", "q"], ["mixed"], "mix"),
        node("ReduceMean", ["mixed"], ["mean"], "mean", axes=[-1], keepdims=1),
        node("Sub", ["mixed", "mean"], ["d"], "centre"),
        node("Tanh", ["d"], ["y"], "tanh"),
    ]
    weights = [
        weight("w1", 16, 3, 3, 3), weight("b1", 16), weight("w2", 16, 16, 3, 3), weight("w3", 16, 12), weight("b3", 12),
        whole("0", 0), whole("2", 2), whole("-1", -1),
    ]  # fmt: skip
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "pictures", [given], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def pictures(count: int) -> list[tuple[int, int, int, int]]:
    rng = np.random.default_rng(count)
    return [(int(rng.integers(1, 4)), 3, int(rng.integers(1, 30)), int(rng.integers(1, 60))) for _ in range(count)]


def picture(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def compiled(model: Path | str, **options: Any) -> Session:
    return af.compile(from_text(model) if isinstance(model, str) else model, threads=1, **options)
