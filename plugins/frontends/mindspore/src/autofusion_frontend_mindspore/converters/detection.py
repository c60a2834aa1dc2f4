"""What detectors and recognisers do with a network's result: suppression of boxes, and the decoding of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import BOOL, F32, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter

_ALL = np.iinfo(np.int64).max
_I32 = np.dtype(np.int32)


def extent(call: Call, value: Value, axis: int) -> Value:
    """The size of an axis (counted from the front) as a vector of one number: a constant, if it is known."""
    size = value.shape[axis] if value.shape is not None else None
    return call.ints([size]) if isinstance(size, int) else call.emit("Shape", value, start=axis, end=axis + 1)


def counting(call: Call, size: Value) -> Value:
    """The numbers from 0 up to, not with, the one in the vector ``size``."""
    if size.const is not None:
        return call.const(np.arange(int(size.const[0])), I64)
    bound = call.emit("Reshape", size, call.ints([]))
    return call.emit("Range", call.const(0, I64), bound, call.const(1, I64))


@converter("NMSWithMask")
def nms_with_mask(call: Call) -> tuple[Value, Value, Value]:
    """[N, 5] boxes with scores -> (the same in order of their scores, their places in that order, which are kept).

    A box is kept unless one before it that is kept overlaps it by more than the threshold. Of equal scores the later
    box comes first.
    """
    boxes, threshold = call.tensor(0), float(call.argument(1, "iou_threshold", 0.5))
    at = call.ints([0])
    backwards = call.emit("Slice", boxes, call.ints([-1]), call.ints([-_ALL]), at, call.ints([-1]))
    count = extent(call, boxes, 0)
    scores = call.emit("Gather", backwards, call.const(4, I64), axis=1)
    order = call.node("TopK", [scores, count], {"axis": 0, "largest": 1, "sorted": 1}, outputs=2).outputs[1]
    ordered = call.emit("Gather", backwards, order, axis=0)
    places = counting(call, count)
    # Falling scores, so that the order stays the one above where scores are equal.
    falling = call.emit("Unsqueeze", call.emit("Neg", call.cast(places, F32)), call.ints([0, 1]))
    corners = call.emit("Slice", ordered, call.ints([0]), call.ints([4]), call.ints([1]))
    corners = call.emit("Unsqueeze", call.cast(corners, F32), at)
    chosen = call.emit("NonMaxSuppression", corners, falling, count, call.const([threshold], F32))
    kept = call.emit("Gather", chosen, call.const(2, I64), axis=1)
    mask = call.emit("Expand", call.const(0, _I32), count)
    ones = call.emit("Expand", call.const(1, _I32), call.emit("Shape", kept))
    mask = call.emit("ScatterElements", mask, kept, ones, axis=0)
    return ordered, call.cast(places, call.result_dtype(1) or _I32), call.cast(mask, BOOL)


@converter("NonMaxSuppressionV3")
def non_max_suppression(call: Call) -> Value:
    """(boxes, scores, most boxes, overlap that suppresses, least score) -> places of the boxes that are kept."""
    boxes, scores = (call.emit("Unsqueeze", call.cast(call.tensor(i), F32), call.ints([0])) for i in (0, 1))
    scores = call.emit("Unsqueeze", scores, call.ints([0]))
    most, overlap, least = (
        call.emit("Reshape", call.cast(call.tensor(i), dtype), call.ints([1]))
        for i, dtype in ((2, I64), (3, F32), (4, F32))
    )
    chosen = call.emit("NonMaxSuppression", boxes, scores, most, overlap, least)
    return call.emit("Gather", chosen, call.const(2, I64), axis=1)


@converter("CTCGreedyDecoder")
def ctc_greedy_decoder(call: Call) -> tuple[Value, Value, Value, Value]:
    """([time, batch, classes], lengths) -> (places and values of a sparse matrix, its shape, log probabilities).

    The best class of each time, without the blank, which is the last class, and (merge_repeated) without one that is
    that of the time before. The log probability is what the best classes sum up to, with the other sign.
    """
    scores, lengths = call.tensor(0), call.cast(call.tensor(1), I64)
    merged = bool(call.argument(2, "merge_repeated", True))
    blank = call.const(call.static_dim(scores, 2) - 1, I64)
    classes = call.emit("Transpose", call.emit("ArgMax", scores, axis=2, keepdims=0), perm=[1, 0])
    times = call.emit("Unsqueeze", counting(call, extent(call, scores, 0)), call.ints([0]))
    within = call.emit("Less", times, call.emit("Unsqueeze", lengths, call.ints([1])))
    kept = call.emit("And", within, call.emit("Not", call.emit("Equal", classes, blank)))
    if merged:
        at = call.ints([1])
        pads = call.ints([0, 1, 0, 0])
        before = call.emit("Pad", classes, pads, call.const(-1, I64))
        before = call.emit("Slice", before, call.ints([0]), call.ints([-1]), at)
        kept = call.emit("And", kept, call.emit("Not", call.emit("Equal", classes, before)))
    found = call.emit("Transpose", call.emit("NonZero", kept), perm=[1, 0])
    counts = call.cast(kept, I64)
    position = call.emit("Sub", call.emit("CumSum", counts, call.const(1, I64)), call.const(1, I64))
    columns = call.emit("Unsqueeze", call.emit("GatherND", position, found), call.ints([1]))
    rows = call.emit("Slice", found, call.ints([0]), call.ints([1]), call.ints([1]))
    values = call.emit("GatherND", classes, found)
    longest = call.emit("ReduceMax", call.emit("ReduceSum", counts, call.ints([1]), keepdims=0), None, keepdims=0)
    longest = call.emit("Reshape", longest, call.ints([1]))
    shape = call.emit("Concat", extent(call, scores, 1), longest, axis=0)
    best = call.emit("Transpose", call.emit("ReduceMax", scores, call.ints([2]), keepdims=0), perm=[1, 0])
    best = call.emit("Where", within, best, call.like(0, best))
    probability = call.emit("Neg", call.emit("ReduceSum", best, call.ints([1]), keepdims=1))
    return call.emit("Concat", rows, columns, axis=1), values, shape, probability


@converter("DeformableOffsets")
def deformable_offsets(call: Call) -> Value:
    """(x, offsets) -> x where each tap of a deformable convolution lies, [N, C, rows * kernel, columns * kernel].

    The offsets are [N, 3 * groups * kernel, rows, columns]: along the width, along the height, and a factor. Outside of
    the image there is zero.
    """
    value, offsets = call.tensor(0), call.tensor(1)
    strides, dilations = (_last_two(call.argument(9, name, 1)) for name in ("strides", "dilations"))
    kernel = _last_two(call.argument(9, "ksize"))
    top, _, left, _ = (int(p) for p in call.argument(9, "pads"))
    groups = int(call.argument(9, "deformable_groups", 1))
    if not call.argument(9, "modulated", True):
        call.fail("offsets without factors (modulated=False) are not supported")
    if str(call.argument(9, "data_format", "NCHW")) != "NCHW":
        call.fail("only the format NCHW is supported")
    channels, height, width = (call.static_dim(value, i) for i in (1, 2, 3))
    rows, columns = (call.static_dim(offsets, i) for i in (2, 3))
    parts = call.emit("Reshape", offsets, call.ints([-1, 3, groups, kernel[0], kernel[1], rows, columns]))
    # [N, 3, groups, rows, kernel, columns, kernel]: every tap beside its window's others.
    parts = call.emit("Transpose", parts, perm=[0, 1, 2, 5, 3, 6, 4])
    parts = call.emit("Reshape", parts, call.ints([-1, 3, groups, rows * kernel[0], columns * kernel[1]]))
    along, down, factor = (call.emit("Gather", parts, call.const(i, I64), axis=1) for i in range(3))
    grid = []
    for moved, count, size, stride, dilation, pad, k, shape in (
        (along, columns, width, strides[1], dilations[1], left, kernel[1], (1, -1)),
        (down, rows, height, strides[0], dilations[0], top, kernel[0], (-1, 1)),
    ):
        starts = (np.arange(count)[:, None] * stride + np.arange(k)[None] * dilation - pad).reshape(shape)
        place = call.emit("Add", moved, call.const(starts, value.dtype))
        # GridSample counts from -1 to 1, from one end of the first element to the other end of the last.
        scaled = call.emit("Mul", place, call.like(2.0 / size, place))
        grid.append(call.emit("Add", scaled, call.like(1.0 / size - 1.0, place)))
    last = call.ints([4])
    places = call.emit("Concat", *(call.emit("Unsqueeze", g, last) for g in grid), axis=4)
    places = call.emit("Reshape", places, call.ints([-1, rows * kernel[0], columns * kernel[1], 2]))
    image = call.emit("Reshape", value, call.ints([-1, channels // groups, height, width]))
    attrs = {"mode": "linear", "padding_mode": "zeros", "align_corners": 0}
    sampled = call.emit("GridSample", image, places, **attrs)
    factor = call.emit("Reshape", factor, call.ints([-1, 1, rows * kernel[0], columns * kernel[1]]))
    result = call.emit("Mul", sampled, factor)
    return call.emit("Reshape", result, call.ints([-1, channels, rows * kernel[0], columns * kernel[1]]))


def _last_two(numbers: Any) -> list[int]:
    given = numbers if isinstance(numbers, tuple) else (numbers,)
    return [int(n) for n in given[-2:]] * (2 if len(given) == 1 else 1)
