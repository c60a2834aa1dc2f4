"""Builds networks as frameworks export them: every normalisation and activation a node of its own.

Weights are random but scaled so that activations keep their size through the network; nothing has to be downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType


class Builder:
    """A graph in the making, from input ``image`` [1, 3, size, size] on."""

    def __init__(self, name: str, size: int, seed: int = 0) -> None:
        self.graph = Graph(name)
        self.random = np.random.default_rng(seed)
        self.image = self.graph.add_input("image", TensorType(F32, (1, 3, size, size)))

    def finish(self, result: Value) -> Graph:
        """The graph, whose output ``logits`` is ``result``."""
        self.graph.add_output(result, "logits")
        infer_graph(self.graph)
        return self.graph

    def constant(self, data: float | np.ndarray, name: str) -> Value:
        """A float32 constant."""
        return self.graph.constant(np.asarray(data, np.float32), name)

    def node(self, op: str, name: str, *inputs: Value, **attrs: object) -> Value:
        """The result of a new node."""
        return self.graph.node(op, inputs, attrs, name=name, origin=(name,)).output

    def conv(
        self,
        x: Value,
        name: str,
        channels: tuple[int, int],
        kernel: int,
        stride: int = 1,
        group: int = 1,
        bias: bool = False,
    ) -> Value:
        """A convolution of ``channels`` (before, after) that keeps the size of the image but for the stride."""
        fan_in = channels[0] // group * kernel * kernel
        shape = (channels[1], channels[0] // group, kernel, kernel)
        operands = [self.constant(self.random.standard_normal(shape) * np.sqrt(2 / fan_in), f"{name}.weight")]
        if bias:
            operands.append(self.constant(np.zeros(channels[1]), f"{name}.bias"))
        return self.node(
            "Conv", name, x, *operands,
            kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[kernel // 2] * 4, dilations=[1, 1],
            group=group,
        )  # fmt: skip

    def normalise(self, x: Value, name: str, channels: int) -> Value:
        """A normalisation with the statistics of training."""
        statistics = (
            self.random.uniform(0.7, 1.1, channels),
            self.random.normal(0, 0.1, channels),
            self.random.normal(0, 0.1, channels),
            self.random.uniform(0.8, 1.2, channels),
        )
        names = ("weight", "bias", "running_mean", "running_var")
        operands = [self.constant(d, f"{name}.{n}") for d, n in zip(statistics, names, strict=True)]
        return self.node("BatchNormalization", name, x, *operands, epsilon=1e-5)

    def dense(self, x: Value, name: str, sizes: Sequence[int]) -> Value:
        """A fully connected layer of ``sizes`` (before, after)."""
        weights = self.random.standard_normal(sizes) / np.sqrt(sizes[0])
        bias = self.constant(np.zeros(sizes[1]), f"{name}.bias")
        return self.node("Gemm", name, x, self.constant(weights, f"{name}.weight"), bias)
