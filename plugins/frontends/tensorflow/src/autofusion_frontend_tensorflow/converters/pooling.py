"""Pooling by windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.layout import Layout, layout_of, padding_of, per_axis
from autofusion_frontend_tensorflow.registry import converter


def _window(call: Call, layout: Layout, sizes: Sequence[int], strides: Sequence[int]) -> dict[str, Any]:
    kernel = per_axis(call, layout, sizes, "ksize")
    steps = per_axis(call, layout, strides, "strides")
    padding = padding_of(call, layout, call.operand(0), kernel, steps, [1] * layout.spatial)
    return {"kernel_shape": kernel, "strides": steps, **padding.attrs}


def _pooled(call: Call, op: str, spatial: int, sizes: Sequence[int], strides: Sequence[int]) -> Value:
    layout = layout_of(call, spatial)
    attrs = _window(call, layout, sizes, strides)
    # SAME leaves the padding out of an average: so does the IR's default.
    return layout.back(call, call.emit(op, layout.first(call, call.operand(0)), **attrs))


@converter("MaxPool", "MaxPool3D")
def max_pool(call: Call) -> Value:
    """Window and strides are attributes."""
    spatial = 3 if call.op.endswith("3D") else 2
    return _pooled(call, "MaxPool", spatial, call.attr("ksize", []), call.attr("strides", []))


@converter("AvgPool", "AvgPool3D")
def average_pool(call: Call) -> Value:
    """Window and strides are attributes."""
    spatial = 3 if call.op.endswith("3D") else 2
    return _pooled(call, "AveragePool", spatial, call.attr("ksize", []), call.attr("strides", []))


@converter("MaxPoolV2")
def max_pool_v2(call: Call) -> Value:
    """Window and strides are operands."""
    return _pooled(call, "MaxPool", 2, call.known_ints(1, "window"), call.known_ints(2, "strides"))


@converter("MaxPoolWithArgmax", outputs=("output", "argmax"))
def max_pool_with_argmax(call: Call) -> list[Value]:
    """Indices count the elements of one image channels last (of the whole batch, if the attribute says so)."""
    x = call.operand(0)
    layout = Layout(True, 2)
    attrs = _window(call, layout, call.attr("ksize", []), call.attr("strides", []))
    node = call.node("MaxPool", [layout.first(call, x)], attrs, outputs=2)
    y, index = (layout.back(call, v) for v in node.outputs)
    # The IR counts channels first, over the whole batch: batch, channel, then the position in the plane.
    channels, plane = call.dim(x, 3), call.emit("Mul", call.dim(x, 1), call.dim(x, 2))
    row = call.emit("Div", index, plane)
    position = call.emit("Mod", index, plane)
    moved = call.emit("Add", call.emit("Mul", position, channels), call.emit("Mod", row, channels))
    if call.attr("include_batch_in_index", False):
        batch = call.emit("Div", row, channels)
        moved = call.emit("Add", moved, call.emit("Mul", batch, call.emit("Mul", plane, channels)))
    return [y, call.cast(moved, call.dtype_attr("Targmax", np.int64))]
