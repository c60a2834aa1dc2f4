"""A BERT-like encoder of any size with seeded weights, as exporters write one, for tests of quantised models."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class _Model:
    """Nodes and constants of a model under construction; methods return the names of results."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __call__(self, op: str, *inputs: str, **attrs: object) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{len(self.nodes)}", **attrs))
        return name

    def constant(self, data: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(data, dtype), name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape) / math.sqrt(shape[0]))

    def linear(self, x: str, size: int, width: int) -> str:
        return self("Add", self("MatMul", x, self.weights(size, width)), self.constant(self.rng.normal(0, 0.1, width)))

    def norm(self, x: str, size: int) -> str:
        scale, shift = self.rng.normal(1, 0.1, size), self.rng.normal(0, 0.1, size)
        return self("LayerNormalization", x, self.constant(scale), self.constant(shift), axis=-1, epsilon=1e-12)


def save_encoder(
    path: Path,
    *,
    layers: int = 2,
    size: int = 64,
    heads: int = 4,
    inner: int = 256,
    length: int | None = 24,
    seed: int = 0,
) -> None:
    """Write the float32 model: ``x`` [1, length, size] to ``y`` of the same shape; of open sizes without a length."""
    lead = [0, 0] if length is None else [1, length]  # 0 in the shape of a Reshape keeps the operand's
    dims: list[int | str] = ["batch", "length"] if length is None else [1, length]
    m = _Model(seed)
    x = "x"
    depth = size // heads
    split, joined = m.constant([*lead, heads, depth], np.int64), m.constant([*lead, size], np.int64)
    for _ in range(layers):
        q, k, v = (m("Reshape", m.linear(x, size, size), split) for _ in range(3))
        q, v = (m("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        k = m("Transpose", k, perm=[0, 2, 3, 1])
        scores = m("Div", m("MatMul", q, k), m.constant(math.sqrt(depth)))
        heads_out = m("MatMul", m("Softmax", scores, axis=-1), v)
        attended = m("Reshape", m("Transpose", heads_out, perm=[0, 2, 1, 3]), joined)
        x = m.norm(m("Add", m.linear(attended, size, size), x), size)
        h = m.linear(x, size, inner)
        erf = m("Add", m("Erf", m("Div", h, m.constant(math.sqrt(2)))), m.constant(1))
        x = m.norm(m("Add", m.linear(m("Mul", m("Mul", h, erf), m.constant(0.5)), inner, size), x), size)
    m.nodes.append(helper.make_node("Identity", [x], ["y"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [*dims, size]) for n in ("x", "y")]
    graph = helper.make_graph(m.nodes, "encoder", ends[:1], ends[1:], m.constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
