"""ResNet-18: most of its time goes into 3x3 convolutions, which cost the same fused and not."""

from __future__ import annotations

from autofusion.ir.graph import Graph, Value
from autofusion.tools.demo.builder import Builder

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels and stride of each stage of two blocks."""


def resnet18(size: int = 224) -> Graph:
    """ResNet-18 for images ``[1, 3, size, size]`` (input ``image``, output ``logits`` [1, 1000])."""
    b = Builder("resnet18", size)
    x = b.node("Relu", "relu", _layer(b, b.image, "conv1", (3, 64), 7, 2))
    x = b.node("MaxPool", "maxpool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    before = 64
    for number, (width, stride) in enumerate(STAGES, 1):
        x = _block(b, x, f"layer{number}.0", (before, width), stride)
        x = _block(b, x, f"layer{number}.1", (width, width), 1)
        before = width
    x = b.node("Flatten", "flatten", b.node("GlobalAveragePool", "avgpool", x), axis=1)
    return b.finish(b.dense(x, "fc", (512, 1000)))


def _layer(b: Builder, x: Value, name: str, channels: tuple[int, int], kernel: int, stride: int) -> Value:
    return b.normalise(b.conv(x, name, channels, kernel, stride), name.replace("conv", "bn"), channels[1])


def _block(b: Builder, x: Value, name: str, channels: tuple[int, int], stride: int) -> Value:
    y = b.node("Relu", f"{name}.relu1", _layer(b, x, f"{name}.conv1", channels, 3, stride))
    y = _layer(b, y, f"{name}.conv2", (channels[1], channels[1]), 3, 1)
    if stride != 1 or channels[0] != channels[1]:
        x = _layer(b, x, f"{name}.downsample.conv", channels, 1, stride)
    return b.node("Relu", f"{name}.relu2", b.node("Add", f"{name}.add", y, x))
