"""Small models for the tests of the stand-in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save(path: Path, nodes: list[onnx.NodeProto], inputs: list, outputs: list, **stored: np.ndarray) -> Path:
    """Write a model of opset 17 with a producer, texts and properties of its own."""
    graph = helper.make_graph(
        nodes, "small", inputs, outputs, [numpy_helper.from_array(a, name) for name, a in stored.items()]
    )
    graph.doc_string = "what the graph does"
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own.domain", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="maker", model_version=7)
    model.domain, model.doc_string = "some.domain", "what the model does"
    helper.set_model_props(model, {"names": "['cat', 'dog']", "stride": "32"})
    path.write_bytes(model.SerializeToString())
    return path


def tensor(name: str, shape: list[int | str | None] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def gemm(path: Path) -> Path:
    """Two outputs, an open dim, and an input with a default."""
    rng = np.random.default_rng(0)
    return save(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["xw"]),
            helper.make_node("Add", ["xw", "b"], ["y"]),
            helper.make_node("Relu", ["y"], ["z"]),
        ],
        [tensor("x", ["N", 4]), tensor("b", [3])],
        [tensor("y", ["N", 3]), tensor("z", ["M", 3])],
        w=rng.standard_normal((4, 3)).astype(np.float32),
        b=rng.standard_normal(3).astype(np.float32),
    )


def one_symbol(path: Path) -> Path:
    """Two inputs whose sizes are one symbol, though any two that can be broadcast would do."""
    return save(
        path,
        [helper.make_node("Add", ["a", "b"], ["c"])],
        [tensor("a", ["N"]), tensor("b", ["N"])],
        [tensor("c", ["N"])],
    )


def scalar(path: Path) -> Path:
    """A scalar input."""
    return save(
        path,
        [helper.make_node("Mul", ["x", "s"], ["y"])],
        [tensor("x", [2]), tensor("s", [])],
        [tensor("y", [2])],
    )


def unknown(path: Path) -> Path:
    """An operator that nobody has."""
    node = helper.make_node("Whatever", ["x"], ["y"], domain="own.domain")
    return save(path, [node], [tensor("x", [2])], [tensor("y", [2])])
