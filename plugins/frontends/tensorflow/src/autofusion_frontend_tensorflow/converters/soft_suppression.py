"""NonMaxSuppressionV5: what overlaps a chosen box loses score instead of being dropped (Bodla et al., 2017).

Each iteration of a Loop chooses the best box and lowers the scores of all by how much they overlap it, which is
TensorFlow's result without its heap. Without a width it is the plain suppression.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion.ir.types import TensorType
from autofusion_frontend_tensorflow.bodies import BodyBuilder, outer
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.converters.detection import chosen
from autofusion_frontend_tensorflow.registry import converter

_GONE = -np.inf


@converter("NonMaxSuppressionV5", outputs=("selected_indices", "selected_scores", "valid_outputs"))
def non_max_suppression_v5(call: Call) -> list[Value]:
    """Operands: boxes, scores, greatest count, overlap and score threshold, width of the Gaussian."""
    width = float(call.known(5, "width of the soft suppression").reshape(()))
    if width > 0:
        picked, scores = _softly(call, -0.5 / width)
    else:
        picked = chosen(call, call.operand(3), call.cast(call.operand(4), np.float32))
        scores = call.emit("Gather", call.operand(1), picked)
    count = call.emit("Shape", picked)
    if call.attr("pad_to_max_output_size", False):
        missing = call.emit("Concat", call.ints([0]), call.emit("Sub", call.vector(call.operand(2)), count), axis=0)
        picked, scores = (call.emit("Pad", v, missing) for v in (picked, scores))
    scores = call.cast(scores, call.dtype(call.operand(1)))
    return [call.cast(picked, np.int32), scores, call.cast(call.reshape(count, []), np.int32)]


def _softly(call: Call, scale: float) -> tuple[Value, Value]:
    """Indices and lowered scores of the boxes, in the order in which they are chosen: [count] each."""
    boxes, scores = (call.cast(call.operand(i), np.float32) for i in (0, 1))
    least = call.cast(call.operand(4), np.float32)
    captured = outer([boxes, least])
    builder = BodyBuilder(call, "soft")
    builder.input("iteration", TensorType(I64, ()))
    builder.input("going", TensorType(BOOL, ()))
    state = builder.input("scores", scores.type)
    builder.capture(captured)
    inner = call.within(builder.graph)
    corners = builder.inside(boxes)
    best = inner.emit("ArgMax", state, axis=0, keepdims=0)
    score = inner.emit("Gather", state, best)
    overlap = _overlap(inner, corners, inner.emit("Gather", corners, best))
    weight = inner.emit("Exp", inner.emit("Mul", inner.emit("Mul", overlap, inner.like(scale, overlap)), overlap))
    lowered = inner.emit("Mul", state, weight)
    own = inner.emit("Reshape", best, inner.ints([1, 1]))
    left = inner.emit("ScatterND", lowered, own, inner.const([_GONE], np.float32))
    more = _above(inner, left, builder.inside(least))
    attrs = {"body": builder.finish([more, left, best, score]), "captures": len(captured)}
    limit = call.reshape(call.as_ints(call.operand(2)), [])
    start = _above(call, scores, least)
    node = call.node("Loop", [limit, start, scores, *captured], attrs, outputs=3)
    return node.outputs[1], node.outputs[2]


def _above(call: Call, scores: Value, least: Value) -> Value:
    """Whether any score is above the threshold; of no scores none is."""
    some = call.emit("Pad", scores, call.ints([0, 1]), call.const(_GONE, np.float32))
    return call.emit("Greater", call.emit("ReduceMax", some, keepdims=0), least)


def _overlap(call: Call, boxes: Value, one: Value) -> Value:
    """Intersection over union of each of ``boxes`` [n, 4] with ``one`` [4]; 0 where either is empty."""
    zero = call.const(0, np.float32)

    def edges(value: Value) -> tuple[list[Value], Value]:
        y1, x1, y2, x2 = (call.emit("Gather", value, call.ints(i), axis=-1) for i in range(4))
        low = [call.emit("Min", y1, y2), call.emit("Min", x1, x2)]
        high = [call.emit("Max", y1, y2), call.emit("Max", x1, x2)]
        sides = [call.emit("Sub", b, a) for a, b in zip(low, high, strict=True)]
        return [*low, *high], call.emit("Mul", *sides)

    (there, area), (here, own) = edges(boxes), edges(one)
    low = [call.emit("Max", there[i], here[i]) for i in range(2)]
    high = [call.emit("Min", there[i], here[i]) for i in (2, 3)]
    sides = [call.emit("Max", call.emit("Sub", b, a), zero) for a, b in zip(low, high, strict=True)]
    inner = call.emit("Mul", *sides)
    union = call.emit("Sub", call.emit("Add", area, own), inner)
    some = call.emit("And", call.emit("Greater", area, zero), call.emit("Greater", own, zero))
    return call.emit("Where", some, call.emit("Div", inner, union), zero)
