"""MobileNetV3-Small: many small operators, with HardSwish written out as exporters of its time did."""

from __future__ import annotations

from autofusion.ir.graph import Graph, Value
from autofusion.tools.demo.builder import Builder

BLOCKS = (
    (3, 16, 16, True, "Relu", 2),
    (3, 72, 24, False, "Relu", 2),
    (3, 88, 24, False, "Relu", 1),
    (5, 96, 40, True, "HardSwish", 2),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 120, 48, True, "HardSwish", 1),
    (5, 144, 48, True, "HardSwish", 1),
    (5, 288, 96, True, "HardSwish", 2),
    (5, 576, 96, True, "HardSwish", 1),
    (5, 576, 96, True, "HardSwish", 1),
)
"""Kernel, channels inside and after, whether channels are gated, activation, stride (Howard et al., 2019, table 2)."""


def mobilenet_v3_small(size: int = 224) -> Graph:
    """MobileNetV3-Small for images ``[1, 3, size, size]`` (input ``image``, output ``logits`` [1, 1000])."""
    b = Builder("mobilenet_v3_small", size)
    x = _layer(b, b.image, "features.0", (3, 16), 3, "HardSwish", 2)
    before = 16
    for number, (kernel, inside, after, gated, activation, stride) in enumerate(BLOCKS, 1):
        name, start = f"features.{number}", x
        if inside != before:
            x = _layer(b, x, f"{name}.expand", (before, inside), 1, activation)
        x = _layer(b, x, f"{name}.depthwise", (inside, inside), kernel, activation, stride, inside)
        if gated:
            x = _gate(b, x, f"{name}.gate", inside)
        x = _layer(b, x, f"{name}.project", (inside, after), 1, "")
        if stride == 1 and before == after:
            x = b.node("Add", f"{name}.add", start, x)
        before = after
    x = _layer(b, x, "features.12", (before, 576), 1, "HardSwish")
    x = b.node("Flatten", "flatten", b.node("GlobalAveragePool", "avgpool", x), axis=1)
    x = _activate(b, b.dense(x, "classifier.0", (576, 1024)), "classifier.1", "HardSwish")
    return b.finish(b.dense(x, "classifier.3", (1024, 1000)))


def _layer(
    b: Builder,
    x: Value,
    name: str,
    channels: tuple[int, int],
    kernel: int,
    activation: str,
    stride: int = 1,
    group: int = 1,
) -> Value:
    x = b.normalise(b.conv(x, f"{name}.conv", channels, kernel, stride, group), f"{name}.bn", channels[1])
    return _activate(b, x, f"{name}.act", activation)


def _activate(b: Builder, x: Value, name: str, activation: str) -> Value:
    if activation == "HardSwish":
        inside = b.node("Add", f"{name}.shift", x, b.constant(3.0, f"{name}.three"))
        limits = (b.constant(0.0, f"{name}.zero"), b.constant(6.0, f"{name}.six"))
        product = b.node("Mul", f"{name}.mul", x, b.node("Clip", f"{name}.clip", inside, *limits))
        return b.node("Div", f"{name}.div", product, b.constant(6.0, f"{name}.divisor"))
    return b.node(activation, name, x) if activation else x


def _gate(b: Builder, x: Value, name: str, channels: int) -> Value:
    """Squeeze and excitation: each channel times a number between 0 and 1 that depends on the means of all."""
    squeezed = max(8, channels // 4 // 8 * 8)
    y = b.node("GlobalAveragePool", f"{name}.pool", x)
    y = b.node("Relu", f"{name}.relu", b.conv(y, f"{name}.fc1", (channels, squeezed), 1, bias=True))
    y = b.conv(y, f"{name}.fc2", (squeezed, channels), 1, bias=True)
    return b.node("Mul", f"{name}.scale", x, b.node("HardSigmoid", f"{name}.sigmoid", y, alpha=1 / 6, beta=0.5))
