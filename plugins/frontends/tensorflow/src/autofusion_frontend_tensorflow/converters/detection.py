"""Operators of object detectors: choosing boxes, and cutting them out of images."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def chosen(call: Call, threshold: float | Value, least: Value | None) -> Value:
    """Indices of the boxes that stay, best first: [count], 64 bits."""
    boxes, scores = (call.cast(call.operand(i), np.float32) for i in (0, 1))
    boxes, scores = call.unsqueeze(boxes, 0), call.unsqueeze(scores, 0, 1)
    overlap = threshold if isinstance(threshold, Value) else call.const(threshold, np.float32)
    picked = call.emit(
        "NonMaxSuppression", boxes, scores, call.vector(call.operand(2)), call.cast(overlap, np.float32), least
    )
    return call.emit("Gather", picked, call.ints(2), axis=1)


@converter("NonMaxSuppression")
def non_max_suppression(call: Call) -> Value:
    """The threshold is an attribute."""
    return call.cast(chosen(call, float(call.attr("iou_threshold", 0.5)), None), np.int32)


@converter("NonMaxSuppressionV2")
def non_max_suppression_v2(call: Call) -> Value:
    """The threshold is an operand."""
    return call.cast(chosen(call, call.operand(3), None), np.int32)


@converter("NonMaxSuppressionV3")
def non_max_suppression_v3(call: Call) -> Value:
    """Scores must also be above a second threshold."""
    return call.cast(chosen(call, call.operand(3), call.cast(call.operand(4), np.float32)), np.int32)


@converter("NonMaxSuppressionV4", outputs=("selected_indices", "valid_outputs"))
def non_max_suppression_v4(call: Call) -> list[Value]:
    """Optionally filled up with zeros to the greatest count; also tells how many are valid."""
    picked = chosen(call, call.operand(3), call.cast(call.operand(4), np.float32))
    count = call.emit("Shape", picked)
    if call.attr("pad_to_max_output_size", False):
        missing = call.emit("Sub", call.vector(call.operand(2)), count)
        picked = call.emit("Pad", picked, call.emit("Concat", call.ints([0]), missing, axis=0))
    return [call.cast(picked, np.int32), call.cast(call.reshape(count, []), np.int32)]


@converter("CropAndResize")
def crop_and_resize(call: Call) -> Value:
    """Operands: images, boxes (corners over the image's size less one), the image of each box, size of the crops.

    Bilinear or nearest samples; points outside the image get a constant.
    """
    images, boxes, of = call.cast(call.operand(0), np.float32), call.operand(1), call.as_ints(call.operand(2))
    height, width = call.known_ints(3, "size of the crops")
    edges = [call.slice(boxes, 1, i, i + 1) for i in range(4)]
    rows = _positions(call, call.dim(images, 1), edges[0], edges[2], height)
    columns = _positions(call, call.dim(images, 2), edges[1], edges[3], width)
    flat = call.unsqueeze(of, 1, 2, 3)
    if call.attr("method", "bilinear") == "nearest":
        # Half away from zero, as the C library rounds; positions inside the image are not negative.
        half = call.const(0.5, np.float32)
        at = [call.emit("Floor", call.emit("Add", p, half)) for p, _ in (rows, columns)]
        value = _sampled(call, images, flat, at[0], at[1])
    else:
        low = [call.emit("Floor", p) for p, _ in (rows, columns)]
        high = [call.emit("Ceil", p) for p, _ in (rows, columns)]
        share_y = call.unsqueeze(call.emit("Sub", rows[0], low[0]), 2, 3)
        share_x = call.unsqueeze(call.emit("Sub", columns[0], low[1]), 1, 3)
        top = _mixed(
            call, _sampled(call, images, flat, low[0], low[1]), _sampled(call, images, flat, low[0], high[1]), share_x
        )
        bottom = _mixed(
            call, _sampled(call, images, flat, high[0], low[1]), _sampled(call, images, flat, high[0], high[1]), share_x
        )
        value = _mixed(call, top, bottom, share_y)
    inside = call.emit("And", call.unsqueeze(rows[1], 2, 3), call.unsqueeze(columns[1], 1, 3))
    return call.emit("Where", inside, value, call.const(float(call.attr("extrapolation_value", 0.0)), np.float32))


def _positions(call: Call, size: Value, low: Value, high: Value, count: int) -> tuple[Value, Value]:
    """Where the samples of each box lie along one axis, [boxes, count], and whether that is inside the image."""
    last = call.cast(call.emit("Sub", size, call.ints([1])), np.float32)
    if count > 1:
        steps = call.const(np.arange(count)[None], np.float32)
        scale = call.emit("Div", call.emit("Mul", call.emit("Sub", high, low), last), call.const(count - 1, np.float32))
        at = call.emit("Add", call.emit("Mul", low, last), call.emit("Mul", scale, steps))
    else:
        at = call.emit("Mul", call.emit("Mul", call.emit("Add", low, high), call.const(0.5, np.float32)), last)
    zero = call.const(0, np.float32)
    inside = call.emit("And", call.emit("GreaterOrEqual", at, zero), call.emit("LessOrEqual", at, last))
    return call.emit("Where", inside, at, zero), inside


def _sampled(call: Call, images: Value, of: Value, rows: Value, columns: Value) -> Value:
    """Pixels [boxes, rows, columns, channels]."""
    y, x = call.unsqueeze(call.as_ints(rows), 2, 3), call.unsqueeze(call.as_ints(columns), 1, 3)
    shape = call.emit("Shape", call.emit("Add", call.emit("Add", y, x), of))
    index = call.emit("Concat", *(call.emit("Expand", v, shape) for v in (of, y, x)), axis=3)
    return call.emit("GatherND", images, index)


def _mixed(call: Call, a: Value, b: Value, share: Value) -> Value:
    return call.emit("Add", a, call.emit("Mul", call.emit("Sub", b, a), share))
