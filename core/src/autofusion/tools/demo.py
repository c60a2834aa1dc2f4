"""The demo's network: ResNet-18 as frameworks export it, every normalisation and activation a node of its own.

Weights are random but scaled so that activations keep their size through the network; nothing has to be downloaded.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


class _Builder:
    def __init__(self, seed: int) -> None:
        self.graph = Graph("resnet18")
        self._random = np.random.default_rng(seed)

    def constant(self, data: np.ndarray, name: str) -> Value:
        return self.graph.constant(data.astype(np.float32), name)

    def node(self, op: str, name: str, *inputs: Value, **attrs: object) -> Value:
        return self.graph.node(op, inputs, attrs, name=name, origin=(name,)).output

    def conv(self, x: Value, name: str, channels: tuple[int, int], kernel: int, stride: int) -> Value:
        fan_in = channels[0] * kernel * kernel
        weights = self._random.standard_normal((channels[1], channels[0], kernel, kernel)) * np.sqrt(2 / fan_in)
        pad = kernel // 2
        y = self.node(
            "Conv", name, x, self.constant(weights, f"{name}.weight"),
            kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pad] * 4, dilations=[1, 1], group=1,
        )  # fmt: skip
        count = channels[1]
        scale, shift = self._random.uniform(0.7, 1.1, count), self._random.normal(0, 0.1, count)
        mean, variance = self._random.normal(0, 0.1, count), self._random.uniform(0.8, 1.2, count)
        statistics = (scale, shift, mean, variance)
        names = ("weight", "bias", "running_mean", "running_var")
        bn = name.replace("conv", "bn")
        operands = [self.constant(d, f"{bn}.{n}") for d, n in zip(statistics, names, strict=True)]
        return self.node("BatchNormalization", bn, y, *operands, epsilon=1e-5)

    def block(self, x: Value, name: str, channels: tuple[int, int], stride: int) -> Value:
        y = self.node("Relu", f"{name}.relu1", self.conv(x, f"{name}.conv1", channels, 3, stride))
        y = self.conv(y, f"{name}.conv2", (channels[1], channels[1]), 3, 1)
        if stride != 1 or channels[0] != channels[1]:
            x = self.conv(x, f"{name}.downsample.conv", channels, 1, stride)
        return self.node("Relu", f"{name}.relu2", self.node("Add", f"{name}.add", y, x))


def network(size: int = 224, seed: int = 0) -> Graph:
    """ResNet-18 for images ``[1, 3, size, size]`` (input ``image``, output ``logits`` [1, 1000])."""
    builder = _Builder(seed)
    graph = builder.graph
    x = graph.add_input("image", TensorType(F32, (1, 3, size, size)))
    x = builder.node("Relu", "relu", builder.conv(x, "conv1", (3, 64), 7, 2))
    x = builder.node("MaxPool", "maxpool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    before = 64
    for number, (width, stride) in enumerate(STAGES, 1):
        x = builder.block(x, f"layer{number}.0", (before, width), stride)
        x = builder.block(x, f"layer{number}.1", (width, width), 1)
        before = width
    x = builder.node("GlobalAveragePool", "avgpool", x)
    x = builder.node("Flatten", "flatten", x, axis=1)
    weights = np.random.default_rng(seed + 1).standard_normal((512, 1000)) / np.sqrt(512)
    x = builder.node(
        "Gemm", "fc", x, builder.constant(weights, "fc.weight"), builder.constant(np.zeros(1000), "fc.bias")
    )
    graph.add_output(x, "logits")
    infer_graph(graph)
    return graph
