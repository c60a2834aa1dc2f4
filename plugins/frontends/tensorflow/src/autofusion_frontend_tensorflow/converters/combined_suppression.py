"""CombinedNonMaxSuppression: boxes of every class chosen, then the best of all classes, for each image.

How many boxes stay is data, so the chosen ones are rows of one list over all images and classes. Sorted by image and
score, the rows of an image lie together, and each place of the padded results reads one of them, or a row of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


@dataclass(frozen=True, slots=True)
class _Chosen:
    """One row for each box that stays, best first for each image and class: [rows] each."""

    image: Value
    label: Value
    score: Value
    box: Value
    """[rows, 4]"""


@converter("CombinedNonMaxSuppression", outputs=("nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"))
def combined_non_max_suppression(call: Call) -> list[Value]:
    """Operands: boxes [images, boxes, 1 or classes, 4], scores [images, boxes, classes], limits, thresholds.

    Of equal scores the lower class comes first, then the lower box. TensorFlow takes the boxes of a class from a heap
    that looks at nothing but scores, which leaves the order of equals open.
    """
    most, total = call.vector(call.operand(2)), call.vector(call.operand(3))
    found = _chosen(call, most)
    images = call.dim(call.operand(1), 0)
    if call.attr("pad_per_class", False):
        total = call.emit("Min", total, call.emit("Mul", most, call.dim(call.operand(1), 2)))
    order = _by_image(call, found)
    counts, places = _places(call, call.emit("Gather", found.image, order), images, total)

    def placed(rows: Value) -> Value:
        """``rows`` where the results want them; the row behind the last is zero."""
        rank = call.rank(rows)
        more = call.ints([0] * rank + [1] + [0] * (rank - 1))
        return call.emit("Gather", call.emit("Pad", call.emit("Gather", rows, order), more), places)

    boxes = found.box
    if call.attr("clip_boxes", True):
        boxes = call.emit("Clip", boxes, call.like(0, boxes), call.like(1, boxes))
    valid = call.cast(call.emit("Min", counts, total), np.int32)
    return [placed(boxes), placed(found.score), placed(call.cast(found.label, np.float32)), valid]


def _chosen(call: Call, most: Value) -> _Chosen:
    """The boxes of each class that overlap no better one too much."""
    boxes, scores = call.operand(0), call.transpose(call.operand(1), [0, 2, 1])
    call.rank(boxes)
    assert boxes.shape is not None
    sets = boxes.shape[2]
    if not isinstance(sets, int):
        call.fail(f"axis 2 of '{boxes.name}' must have a known size, 1 or the number of classes, found {boxes.type}")
    if sets == 1:
        flat, looked_at = call.squeeze(boxes, 2), scores
    else:
        # Classes with boxes of their own are suppressed as so many images with one class.
        count, one = call.dim(boxes, 1), call.ints([1])
        batch = call.emit("Mul", call.dim(boxes, 0), call.ints([sets]))
        flat = call.reshape(
            call.transpose(boxes, [0, 2, 1, 3]), call.emit("Concat", batch, count, call.ints([4]), axis=0)
        )
        looked_at = call.reshape(scores, call.emit("Concat", batch, one, count, axis=0))
    thresholds = (call.cast(call.operand(i), np.float32) for i in (4, 5))
    rows = call.emit("NonMaxSuppression", flat, looked_at, most, *thresholds)
    first, second, box = (call.emit("Gather", rows, call.ints(i), axis=1) for i in range(3))
    image, label = first, second
    if sets != 1:
        image, label = (call.emit(op, first, call.ints(sets)) for op in ("Div", "Mod"))
    score = call.emit("GatherND", looked_at, rows)
    corners = call.emit("GatherND", flat, call.emit("Concat", *(call.unsqueeze(v, 1) for v in (first, box)), axis=1))
    return _Chosen(image, label, score, corners)


def _by_image(call: Call, found: _Chosen) -> Value:
    """The order of the rows by image, those of an image best first."""

    def sorted_(keys: Value) -> Value:
        return call.node("TopK", [keys, call.emit("Shape", keys)], {"axis": 0}, outputs=2).outputs[1]

    by_score = sorted_(found.score)
    by_image = sorted_(call.emit("Neg", call.emit("Gather", found.image, by_score)))
    return call.emit("Gather", by_score, by_image)


def _places(call: Call, image: Value, images: Value, total: Value) -> tuple[Value, Value]:
    """How many rows each image has, and the row for each place [images, places] of the results."""
    zero, one = call.ints(0), call.ints(1)
    each = call.emit("Range", zero, call.reshape(images, []), one)
    own = call.cast(call.emit("Equal", call.unsqueeze(each, 1), call.unsqueeze(image, 0)), np.int64)
    counts = call.emit("ReduceSum", own, call.ints([1]), keepdims=0)
    starts = call.emit("CumSum", counts, zero, exclusive=1)
    place = call.unsqueeze(call.emit("Range", zero, call.reshape(total, []), one), 0)
    there = call.emit("Less", place, call.unsqueeze(counts, 1))
    row = call.emit("Add", call.unsqueeze(starts, 1), place)
    return counts, call.emit("Where", there, row, call.emit("Shape", image))
