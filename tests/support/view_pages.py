"""Networks that have something of everything to show, and their pages."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

import autofusion as af
from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.tools import baseline
from autofusion.tools.view.data import page_data
from autofusion.tools.view.page import render


class Net:
    """Builds a graph with a name for every node, as a source model has."""

    def __init__(self, name: str = "small", size: int = 16) -> None:
        self.graph = Graph(name)
        self.x = self.graph.add_input("x", TensorType(F32, (1, 8, size, size)))
        self._random = np.random.default_rng(1)

    def constant(self, data: Any, name: str = "c") -> Value:
        return self.graph.constant(np.asarray(data, np.float32), name)

    def node(self, op: str, name: str, *inputs: Value | None, **attrs: Any) -> Value:
        return self.graph.node(op, inputs, attrs, name=name, origin=(name,)).output

    def conv(self, name: str, x: Value, kernel: int = 3, channels: int = 8) -> Value:
        assert x.shape is None or isinstance(x.shape[1], int)
        feeding = 8 if x.shape is None else x.shape[1]
        weight = self._random.standard_normal((channels, feeding, kernel, kernel)) / (kernel * 3)
        pads = [kernel // 2] * 4
        return self.node("Conv", name, x, self.constant(weight, f"{name}.w"), kernel_shape=[kernel] * 2, pads=pads)

    def hard_swish(self, name: str, x: Value) -> Value:
        low = self.node("Add", f"{name}.add", x, self.constant(3.0))
        gate = self.node("Clip", f"{name}.clip", low, self.constant(0.0), self.constant(6.0))
        return self.node("Div", f"{name}.div", self.node("Mul", f"{name}.mul", x, gate), self.constant(6.0))

    def done(self, *outputs: Value) -> Graph:
        for value in outputs:
            self.graph.add_output(value, f"out_{value.name}")
        infer_graph(self.graph)
        return self.graph


def small() -> Graph:
    """Fused convolutions; one (`branch`) whose activation cannot join, since another node reads it as well; names that
    would break a careless page.
    """
    net = Net()
    h = net.hard_swish("swish", net.conv("first", net.x))
    c = net.conv("branch", h)
    kept = net.node("Relu", "kept</script><b>", c)
    pooled = net.node("GlobalAveragePool", "pooled", c)
    return net.done(net.node("Mul", "gate", kept, net.node("Sigmoid", "sigmoid", pooled)), pooled)


def page_of(graph: Graph, **options: Any) -> str:
    session = baseline.planned(af.compile(graph, threads=1, **options), {})
    return render(page_data(graph.name, session, baseline.unfused(session), None, len(graph.nodes)))


def large(blocks: int) -> Graph:
    """About ten nodes a block: convolutions, decomposed activations, gates, and skip connections over ten blocks."""
    net = Net("large", size=8)
    h, before = net.x, net.x
    for block in range(blocks):
        h = net.hard_swish(f"b{block}.swish", net.conv(f"b{block}.conv", h, kernel=1))
        pooled = net.node("GlobalAveragePool", f"b{block}.pool", h)
        gate = net.node("Sigmoid", f"b{block}.sigmoid", net.conv(f"b{block}.squeeze", pooled, kernel=1))
        h = net.node("Mul", f"b{block}.gate", h, gate)
        if block % 10 == 9:
            h = before = net.node("Add", f"b{block}.skip", h, before)
    return net.done(h)


def data_of(text: str) -> dict[str, Any]:
    """The data inside a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    parsed: dict[str, Any] = json.loads(found[1])
    return parsed
