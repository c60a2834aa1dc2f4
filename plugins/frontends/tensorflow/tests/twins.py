"""ResNet-50 and MobileNetV2, each described once and written twice: as an ONNX model, and as a TensorFlow graph.

Each writer does it as its own world does: ONNX with channels first, pads and Gemm; TensorFlow with channels last, Pad
nodes before strided convolutions, batch normalisation in the pieces that Keras exports, Mean and MatMul with BiasAdd.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np


class Layers(Protocol):
    """What the descriptions need; values are whatever the writer passes around."""

    def conv(self, x: Any, weight: np.ndarray, stride: int, groups: int) -> Any: ...
    def batch_norm(self, x: Any, statistics: list[np.ndarray]) -> Any: ...
    def relu(self, x: Any) -> Any: ...
    def relu6(self, x: Any) -> Any: ...
    def add(self, x: Any, y: Any) -> Any: ...
    def max_pool(self, x: Any) -> Any: ...
    def dense(self, x: Any, weight: np.ndarray, bias: np.ndarray) -> Any: ...


class _Network:
    """Draws the weights, so that both writers get the same."""

    def __init__(self, layers: Layers, seed: int = 0) -> None:
        self.layers = layers
        self.rng = np.random.default_rng(seed)

    def conv_bn(self, x: Any, cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
        shape = (cout, cin // groups, kernel, kernel)
        weight = self.rng.standard_normal(shape) * np.sqrt(2.0 / (shape[1] * kernel * kernel))
        y = self.layers.conv(x, weight.astype(np.float32), stride, groups)
        scale, variance = (self.rng.uniform(0.8, 1.2, cout).astype(np.float32) for _ in range(2))
        bias, mean = (0.1 * self.rng.standard_normal(cout).astype(np.float32) for _ in range(2))
        return self.layers.batch_norm(y, [scale, bias, mean, variance])

    def head(self, x: Any, channels: int) -> Any:
        weight = self.rng.standard_normal((channels, 100)).astype(np.float32) / np.float32(np.sqrt(channels))
        return self.layers.dense(x, weight, self.rng.standard_normal(100).astype(np.float32))


def resnet50(layers: Layers, x: Any) -> Any:
    """He et al., 2016, with the stride on the 3x3 convolution."""
    net = _Network(layers)
    x = layers.max_pool(layers.relu(net.conv_bn(x, 3, 64, 7, 2)))
    channels = 64
    for stage, (count, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for index in range(count):
            stride = 2 if index == 0 and stage else 1
            y = layers.relu(net.conv_bn(x, channels, width, 1))
            y = layers.relu(net.conv_bn(y, width, width, 3, stride))
            y = net.conv_bn(y, width, 4 * width, 1)
            if index == 0:
                x = net.conv_bn(x, channels, 4 * width, 1, stride)
            channels = 4 * width
            x = layers.relu(layers.add(y, x))
    return net.head(x, channels)


def mobilenet_v2(layers: Layers, x: Any) -> Any:
    """Sandler et al., 2018."""
    net = _Network(layers)
    x, channels = layers.relu6(net.conv_bn(x, 3, 32, 3, 2)), 32
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for factor, width, count, first in blocks:
        for index in range(count):
            stride, inner, y = (first if index == 0 else 1), channels * factor, x
            if factor > 1:
                y = layers.relu6(net.conv_bn(y, channels, inner, 1))
            y = layers.relu6(net.conv_bn(y, inner, inner, 3, stride, inner))
            y = net.conv_bn(y, inner, width, 1)
            x = layers.add(x, y) if stride == 1 and channels == width else y
            channels = width
    return net.head(layers.relu6(net.conv_bn(x, channels, 1280, 1)), 1280)


class OnnxLayers:
    """Writes an ONNX model."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def _constant(self, data: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def _node(self, op: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x: str, weight: np.ndarray, stride: int, groups: int) -> str:
        size = weight.shape[2]
        pads, sizes = [size // 2] * 4, [size] * 2
        attributes = {"kernel_shape": sizes, "strides": [stride] * 2, "pads": pads, "group": groups}
        return self._node("Conv", x, self._constant(weight), **attributes)

    def batch_norm(self, x: str, statistics: list[np.ndarray]) -> str:
        return self._node("BatchNormalization", x, *map(self._constant, statistics), epsilon=1e-3)

    def relu(self, x: str) -> str:
        return self._node("Relu", x)

    def relu6(self, x: str) -> str:
        return self._node("Clip", x, self._constant(np.float32(0)), self._constant(np.float32(6)))

    def add(self, x: str, y: str) -> str:
        return self._node("Add", x, y)

    def max_pool(self, x: str) -> str:
        return self._node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def dense(self, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        flat = self._node("Flatten", self._node("GlobalAveragePool", x))
        return self._node("Gemm", flat, self._constant(weight), self._constant(bias))

    def write(self, path: Path, network: Any) -> Path:
        """The model with an input [1, 3, 224, 224]."""
        import onnx
        from onnx import TensorProto, helper

        result = network(self, "x")
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])]
        outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, [1, 100])]
        graph = helper.make_graph(self.nodes, "twin", inputs, outputs, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
        return path


class TensorflowLayers:
    """Writes a frozen graph."""

    def __init__(self) -> None:
        import tensorflow

        self.tf = tensorflow

    def conv(self, x: Any, weight: np.ndarray, stride: int, groups: int) -> Any:
        tf, last = self.tf, weight.transpose(2, 3, 1, 0)
        size = weight.shape[2]
        padding = "SAME"
        if stride > 1 and size > 1:  # the padding of other frameworks, which SAME is not
            x = tf.pad(x, [[0, 0], [size // 2] * 2, [size // 2] * 2, [0, 0]])
            padding = "VALID"
        if groups > 1:
            return tf.nn.depthwise_conv2d(x, last.transpose(0, 1, 3, 2), [1, stride, stride, 1], padding)
        return tf.nn.conv2d(x, last, stride, padding)

    def batch_norm(self, x: Any, statistics: list[np.ndarray]) -> Any:
        scale, bias, mean, variance = map(self.tf.constant, statistics)
        return self.tf.nn.batch_normalization(x, mean, variance, bias, scale, 1e-3)

    def relu(self, x: Any) -> Any:
        return self.tf.nn.relu(x)

    def relu6(self, x: Any) -> Any:
        return self.tf.nn.relu6(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def max_pool(self, x: Any) -> Any:
        return self.tf.nn.max_pool2d(self.tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")

    def dense(self, x: Any, weight: np.ndarray, bias: np.ndarray) -> Any:
        tf = self.tf
        return tf.nn.bias_add(tf.matmul(tf.reduce_mean(x, [1, 2]), weight), bias)

    def write(self, path: Path, network: Any) -> Path:
        """The graph with an input [1, 224, 224, 3]. It is built in a Graph: nothing of it is folded by TensorFlow."""
        with self.tf.Graph().as_default() as graph:
            x = self.tf.compat.v1.placeholder(self.tf.float32, [1, 224, 224, 3], "x")
            self.tf.identity(network(self, x), "out")
        path.write_bytes(graph.as_graph_def().SerializeToString())
        return path
