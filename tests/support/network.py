"""A small network for the trust tests: residual blocks as exporters write them, a classifier, ten classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.plugins.registry import default_registry

CHANNELS, HEIGHT = 24, 20


def network(blocks: int = 4, seed: int = 0) -> Graph:
    """``x`` [1, 24, 20, w] to ``y`` [1, 10]; nodes ``block0.conv1``, ``.bn``, ``.relu1``, ``.conv2``, ``.add``..."""
    random = np.random.default_rng(seed)
    graph = Graph("blocks")

    def constant(array: np.ndarray, name: str) -> Value:
        return graph.constant(np.asarray(array, np.float32), name)

    def node(op: str, name: str, *inputs: Value, **attrs: object) -> Value:
        return graph.node(op, inputs, attrs, name=name, origin=(name,)).output

    def conv(x: Value, name: str) -> Value:
        weights = random.standard_normal((CHANNELS, CHANNELS, 3, 3)) / np.sqrt(9 * CHANNELS / 2)
        return node(
            "Conv", name, x, constant(weights, f"{name}.weight"),
            kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4, dilations=[1, 1], group=1,
        )  # fmt: skip

    x = graph.add_input("x", TensorType(F32, (1, CHANNELS, HEIGHT, "w")))
    for number in range(blocks):
        name = f"block{number}"
        statistics = (
            random.uniform(0.2, 0.4, CHANNELS),
            random.normal(0, 0.3, CHANNELS),
            random.normal(0, 0.1, CHANNELS),
            random.uniform(0.1, 0.3, CHANNELS),
        )
        y = conv(x, f"{name}.conv1")
        operands = [constant(s, f"{name}.bn.{i}") for i, s in enumerate(statistics)]
        y = node("Relu", f"{name}.relu1", node("BatchNormalization", f"{name}.bn", y, *operands, epsilon=1e-5))
        x = node("Relu", f"{name}.relu2", node("Add", f"{name}.add", conv(y, f"{name}.conv2"), x))
    x = node("Flatten", "flatten", node("GlobalAveragePool", "pool", x), axis=1)
    weights = random.standard_normal((CHANNELS, 10)) / np.sqrt(CHANNELS)
    x = node("MatMul", "fc", x, constant(weights, "fc.weight"))
    graph.add_output(node("Softmax", "softmax", x, axis=-1), "y")
    infer_graph(graph)
    return graph


def batches(seed: int = 0) -> Graph:
    """``x`` [n, 24, 16, 16] to ``y`` [n, 10], as one path: grouped convolutions ``groups0..2`` each with ``shift``,
    ``relu`` and a difference ``minus``, then ``turn`` (a transposition), ``product``, ``sum``, ``mean``, ``softmax``.
    """
    random = np.random.default_rng(seed)
    graph = Graph("batches")

    def constant(array: np.ndarray, name: str) -> Value:
        return graph.constant(np.asarray(array, np.float32), name)

    def node(op: str, name: str, *inputs: Value, **attrs: object) -> Value:
        return graph.node(op, inputs, attrs, name=name, origin=(name,)).output

    x = graph.add_input("x", TensorType(F32, ("n", 24, 16, 16)))
    for number in range(3):
        weights = constant(random.standard_normal((24, 6, 3, 3)) / 5, f"groups{number}.weight")
        y = node(
            "Conv", f"groups{number}", x, weights,
            kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4, dilations=[1, 1], group=4,
        )  # fmt: skip
        shift = constant(random.standard_normal((24, 1, 1)), f"shift{number}.value")
        y = node("Relu", f"relu{number}", node("Add", f"shift{number}", y, shift))
        x = node("Sub", f"minus{number}", y, x)
    x = node("Transpose", "turn", x, perm=[0, 1, 3, 2])
    x = node("MatMul", "product", x, constant(random.standard_normal((16, 10)) / 4, "product.weight"))
    x = node("Tanh", "tanh", node("Add", "sum", x, constant(random.standard_normal((16, 10)), "sum.value")))
    x = node("ReduceMean", "mean", x, constant_axes(graph), keepdims=0)
    graph.add_output(node("Softmax", "softmax", x, axis=-1), "y")
    infer_graph(graph)
    return graph


def constant_axes(graph: Graph) -> Value:
    """The axes [1, 2], as ReduceMean takes them."""
    return graph.constant(np.array([1, 2], np.int64), "axes")


def chain(count: int, seed: int = 0) -> Graph:
    """``count`` places that fuse in a row (``product7``, ``bias7``, ``tanh7``), from ``x`` to ``y`` [8, 16]."""
    random = np.random.default_rng(seed)
    graph = Graph("chain")
    x = graph.add_input("x", TensorType(F32, (8, 16)))
    for number in range(count):
        weights = graph.constant(random.standard_normal((16, 16)).astype(np.float32) / 3, f"weights{number}")
        shift = graph.constant(random.standard_normal(16).astype(np.float32) / 10, f"shift{number}")
        for op, name, inputs in (
            ("MatMul", "product", [x, weights]),
            ("Add", "bias", [None, shift]),
            ("Tanh", "tanh", [None]),
        ):
            operands = [x if v is None else v for v in inputs]
            x = graph.node(op, operands, name=f"{name}{number}", origin=(f"{name}{number}",)).output
    graph.add_output(x, "y")
    infer_graph(graph)
    return graph


def write(graph: Graph, path: Path) -> Path:
    """``graph`` as an ONNX file."""
    frontend = default_registry().frontend("onnx")
    frontend.export(graph, path, inline=True)  # type: ignore[attr-defined]
    return path
