"""ResNet-18 and ResNet-50 in ONNX with BatchNormalization left as its own node, and seeded random weights.

Exporters nearly always fold BatchNormalization away, so a published file would not show whether the fold works. The
weights are scaled (He et al., 2015: deviation sqrt(2 / fan-in)) and the running statistics are near those that the
scaling makes, so activations stay of order one from the first layer to the last; the last normalisation of each block
is damped, or the residual sum would double in variance at each one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8
BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
WIDTHS = (64, 128, 256, 512)


class _Builder:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, values: np.ndarray) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))
        return name

    def node(self, op: str, name: str, *inputs: str, **attributes: object) -> str:
        out = f"{name}_out"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=name, **attributes))
        return out

    def conv_bn(self, name: str, x: str, cin: int, cout: int, kernel: int, stride: int = 1, gain: float = 1.0) -> str:
        rng, pad = self.rng, kernel // 2
        deviation = np.sqrt(2.0 / (cin * kernel * kernel))
        weight = self.constant(f"{name}.weight", rng.standard_normal((cout, cin, kernel, kernel)) * deviation)
        y = self.node(
            "Conv",
            f"{name}.conv",
            x,
            weight,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            dilations=[1, 1],
            group=1,
        )
        scale = self.constant(f"{name}.bn.scale", gain * rng.uniform(0.8, 1.2, cout))
        bias = self.constant(f"{name}.bn.bias", 0.1 * rng.standard_normal(cout))
        mean = self.constant(f"{name}.bn.mean", 0.1 * rng.standard_normal(cout))
        variance = self.constant(f"{name}.bn.var", rng.uniform(0.8, 1.2, cout))
        return self.node("BatchNormalization", f"{name}.bn", y, scale, bias, mean, variance, epsilon=1e-5)

    def block(self, name: str, x: str, cin: int, width: int, stride: int, bottleneck: bool) -> tuple[str, int]:
        damped = 0.3
        if bottleneck:
            cout = 4 * width
            y = self.node("Relu", f"{name}.relu1", self.conv_bn(f"{name}.1", x, cin, width, 1))
            y = self.node("Relu", f"{name}.relu2", self.conv_bn(f"{name}.2", y, width, width, 3, stride))
            y = self.conv_bn(f"{name}.3", y, width, cout, 1, gain=damped)
        else:
            cout = width
            y = self.node("Relu", f"{name}.relu1", self.conv_bn(f"{name}.1", x, cin, width, 3, stride))
            y = self.conv_bn(f"{name}.2", y, width, cout, 3, gain=damped)
        if stride != 1 or cin != cout:
            x = self.conv_bn(f"{name}.down", x, cin, cout, 1, stride, gain=0.7)
        y = self.node("Add", f"{name}.add", y, x)
        return self.node("Relu", f"{name}.relu", y), cout


def build(depth: int, seed: int = 0) -> onnx.ModelProto:
    """A ResNet of 18 or 50 layers (He et al., 2016): input `input` [N, 3, H, W], output `logits` [N, 1000]."""
    if depth not in BLOCKS:
        raise ValueError(f"a ResNet of depth {depth} is not built here; expected one of {sorted(BLOCKS)}")
    b = _Builder(seed)
    x = b.node("Relu", "stem.relu", b.conv_bn("stem", "input", 3, 64, 7, 2))
    x = b.node("MaxPool", "stem.pool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (count, width) in enumerate(zip(BLOCKS[depth], WIDTHS, strict=True), start=1):
        for index in range(count):
            stride = 2 if index == 0 and stage > 1 else 1
            x, channels = b.block(f"layer{stage}.{index}", x, channels, width, stride, bottleneck=depth >= 50)
    x = b.node("GlobalAveragePool", "head.pool", x)
    x = b.node("Flatten", "head.flatten", x, axis=1)
    weight = b.constant("fc.weight", b.rng.standard_normal((1000, channels)) / np.sqrt(channels))
    bias = b.constant("fc.bias", 0.1 * b.rng.standard_normal(1000))
    b.nodes.append(helper.make_node("Gemm", [x, weight, bias], ["logits"], name="fc", transB=1))
    graph = helper.make_graph(
        b.nodes,
        f"resnet{depth}",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 1000])],
        b.initializers,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="autofusion-zoo",
    )
    onnx.checker.check_model(model)
    return model


def write(path: Path, depth: int, seed: int = 0) -> None:
    """Build a ResNet and save it; equal arguments give an equal file."""
    path.write_bytes(build(depth, seed).SerializeToString(deterministic=True))
