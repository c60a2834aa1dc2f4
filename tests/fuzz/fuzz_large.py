"""Larger operators, where tiles, blocks, threads and other algorithms begin, against their definition in NumPy.

The reference kernels would take minutes; here convolutions are sums over taps, and everything runs in double precision.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import of_array

Case = tuple[Graph, dict[str, np.ndarray], np.ndarray]
"""A graph with one output, its inputs, and what it must give."""


def _random(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def _convolution(
    x: np.ndarray, w: np.ndarray, pads: list[int], strides: list[int], dilations: list[int], group: int
) -> np.ndarray:
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    kernel = w.shape[2:]
    size = [(x.shape[2 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(2)]
    y = np.zeros((x.shape[0], group, w.shape[0] // group, *size))
    weights = w.astype(np.float64).reshape(group, w.shape[0] // group, w.shape[1], *kernel)
    for a, b in itertools.product(range(kernel[0]), range(kernel[1])):
        rows = slice(a * dilations[0], a * dilations[0] + (size[0] - 1) * strides[0] + 1, strides[0])
        columns = slice(b * dilations[1], b * dilations[1] + (size[1] - 1) * strides[1] + 1, strides[1])
        seen = x[:, :, rows, columns].reshape(x.shape[0], group, w.shape[1], -1)
        y += np.einsum("goc,ngcp->ngop", weights[..., a, b], seen).reshape(y.shape)
    return y.reshape(x.shape[0], w.shape[0], *size)


def convolution(rng: np.random.Generator) -> Case:
    """A convolution with bias, residual or constant, and activation."""

    def choose(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    channels = choose(3, 8, 16, 24, 32, 33, 48, 64, 96)
    group = choose(1, 1, 1, 1, channels, choose(*[g for g in (2, 3, 4, 8) if channels % g == 0] or [1]))
    filters = group * choose(1, 2) if group == channels else group * choose(4, 8, 16, 24, 32, 5)
    kernel = choose([1, 1], [3, 3], [3, 3], [3, 3], [5, 5], [7, 7], [1, 3], [2, 2])
    strides = choose([1, 1], [1, 1], [2, 2], [1, 2])
    dilations = choose([1, 1], [1, 1], [1, 1], [2, 2])
    pads = choose([0] * 4, [k // 2 for k in kernel] * 2, [int(p) for p in rng.integers(0, 3, 4)])
    height, width = int(rng.integers(15, 60)), int(rng.integers(15, 60))
    x = _random(rng, choose(1, 1, 1, 2, 3), channels, height, width)
    w = _random(rng, filters, channels // group, *kernel) / np.float32(
        np.sqrt(channels // group * kernel[0] * kernel[1])
    )
    b = _random(rng, filters)
    graph = Graph("large")
    value = graph.add_input("x", of_array(x))
    attrs = {"pads": pads, "strides": strides, "dilations": dilations, "group": group}
    y = _convolution(x, w, pads, strides, dilations, group) + b.reshape(-1, 1, 1)
    feeds = {"x": x}
    out = graph.node("Conv", [value, graph.constant(w), graph.constant(b)], attrs).output
    if rng.random() < 0.4:
        s = _random(rng, filters, 1, 1)
        out, y = graph.node("Mul", [out, graph.constant(s)]).output, y * s
    if rng.random() < 0.4:
        r = _random(rng, *y.shape)
        feeds["r"] = r
        out, y = graph.node("Add", [out, graph.add_input("r", of_array(r))]).output, y + r
    if rng.random() < 0.6:
        out, y = graph.node("Relu", [out]).output, np.maximum(y, 0)
    if rng.random() < 0.2:
        out, y = graph.node("Sigmoid", [out]).output, 1 / (1 + np.exp(-y))
    graph.add_output(out, "y")
    infer_graph(graph)
    return graph, feeds, y


def product(rng: np.random.Generator) -> Case:
    """A product of matrices or batches of them, with bias and activation."""
    rows, inner, columns = (int(n) for n in rng.integers(1, 200, 3))
    lead = [(), (), (3,), (2, 3)][int(rng.integers(4))]
    a = _random(rng, *lead, rows, inner)
    constant = bool(rng.random() < 0.6)
    b = _random(rng, *(() if constant or rng.random() < 0.3 else lead), inner, columns) / np.float32(np.sqrt(inner))
    graph = Graph("large")
    feeds = {"a": a}
    left = graph.add_input("a", of_array(a))
    if constant:
        right = graph.constant(b)
    else:
        feeds["b"] = b
        right = graph.add_input("b", of_array(b))
    out, y = graph.node("MatMul", [left, right]).output, a.astype(np.float64) @ b
    if rng.random() < 0.6:
        c = _random(rng, columns)
        out, y = graph.node("Add", [out, graph.constant(c)]).output, y + c
    if rng.random() < 0.5:
        out, y = graph.node("Tanh", [out]).output, np.tanh(y)
    if rng.random() < 0.3:
        axes = graph.constant(np.array([-1], np.int64))
        out, y = graph.node("ReduceMean", [out, axes], {"keepdims": 1}).output, y.mean(-1, keepdims=True)
    elif rng.random() < 0.3:
        out = graph.node("Softmax", [out], {"axis": -1}).output
        y = np.exp(y - y.max(-1, keepdims=True))
        y = y / y.sum(-1, keepdims=True)
    graph.add_output(out, "y")
    infer_graph(graph)
    return graph, feeds, y
