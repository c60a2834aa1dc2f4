"""A small network with a fused site, a rewrite and a refusal, for the tools that tell of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType


def network(batch: int | str = 1, size: int = 16) -> Graph:
    """`first` -> hard swish in pieces -> `branch`, which a Relu and a pooling both read -> `gate`; output `y`."""
    graph = Graph("network")
    random = np.random.default_rng(0)

    def constant(data: Any) -> Value:
        return graph.constant(np.asarray(data, np.float32), "c")

    def node(op: str, name: str, *inputs: Value, **attrs: Any) -> Value:
        return graph.node(op, inputs, attrs, name=name, origin=(name,)).output

    def conv(name: str, x: Value) -> Value:
        weight = constant(random.standard_normal((8, 8, 3, 3)) / 9)
        return node("Conv", name, x, weight, kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    h = conv("first", graph.add_input("x", TensorType(F32, (batch, 8, size, size))))
    gate = node("Clip", "swish.clip", node("Add", "swish.add", h, constant(3)), constant(0), constant(6))
    h = node("Div", "swish.div", node("Mul", "swish.mul", h, gate), constant(6))
    c = conv("branch", h)
    kept = node("Relu", "kept", c)
    pooled = node("GlobalLpPool", "pooled", c)
    graph.add_output(node("Mul", "gate", kept, node("Sigmoid", "sigmoid", pooled)), "y")
    infer_graph(graph)
    return graph


def feeds(batch: int = 1, size: int = 16) -> dict[str, np.ndarray]:
    """Inputs of ``network``."""
    return {"x": np.random.default_rng(1).random((batch, 8, size, size), np.float32)}
