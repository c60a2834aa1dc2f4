"""Sampling, distances, ranges and lists of tokens, in standard operators."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@converter("GridSample", domain=_MS)
def grid_sample(call: Call) -> list[Value]:
    """The modes had other names."""
    mode = call.attr("mode", "bilinear")
    return call.result("GridSample", call.inputs, call.without("mode", mode=_MODES.get(mode, mode)))


@converter("Unique", domain=_MS)
def unique(call: Call) -> list[Value]:
    """Values in the order in which they first appear, where each element is among them, and how often each appears."""
    y, _, places, counts = call.node("Unique", [call.operand(0)], {"sorted": 0}, outputs=4).outputs
    return [y, places, counts]


@converter("Range", domain=_MS)
def arange(call: Call) -> list[Value]:
    """Bounds may be vectors of one element, and the step may be left out."""
    start, limit = (call.emit("Reshape", call.operand(i), call.ints([])) for i in (0, 1))
    step = call.like(1, start, "step") if call.optional(2) is None else call.operand(2)
    return [call.emit("Range", start, limit, call.emit("Reshape", step, call.ints([])))]


@converter("UnfoldTensor", domain=_MS)
def unfold(call: Call) -> list[Value]:
    """Windows of ``size`` along ``dim``, ``step`` apart, as a new last axis."""
    x = call.operand(0)
    axis, size, step = call.axis(call.attr("dim", -1), x), int(call.attr("size", 1)), int(call.attr("step", 1))
    length = call.static_dim(x, axis)
    if not 0 < size <= length or step < 1:
        call.fail(f"windows of {size} elements, {step} apart, do not fit {length} elements")
    places = np.arange(0, length - size + 1, step)[:, None] + np.arange(size)
    windows = call.emit("Gather", x, call.const(places, I64, "places"), axis=axis)
    order = [a for a in range(call.rank(x) + 1) if a != axis + 1]
    return [call.emit("Transpose", windows, perm=[*order, axis + 1])]


@converter("CDist", domain=_MS)
def distances(call: Call) -> list[Value]:
    """Distances between all rows of [M, N] and of [K, N]."""
    metric = call.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        call.fail(f"metric '{metric}' is not supported; expected euclidean or sqeuclidean")
    a, b = (call.emit("Unsqueeze", call.operand(i), call.ints([1 - i])) for i in (0, 1))
    apart = call.emit("Sub", a, b)
    squares = call.emit("ReduceSum", call.emit("Mul", apart, apart), call.ints([-1]), keepdims=0)
    return [call.emit("Sqrt", squares) if metric == "euclidean" else squares]


@converter("CropAndResize", domain=_MS)
def crop_and_resize(call: Call) -> list[Value]:
    """Boxes (y1, x1, y2, x2) in parts of the image [N, C, H, W], sampled with their corners on elements."""
    x, boxes = call.operand(0), call.operand(1)
    images = call.emit("Gather", x, call.emit("Cast", call.operand(2), to=I64), axis=0)
    sizes = call.emit("Cast", call.operand(3), to=I64)
    places = []
    for axis in (0, 1):
        count = call.emit("Gather", sizes, call.ints(axis), axis=0)
        steps = call.emit("Cast", call.emit("Range", call.ints(0), count, call.ints(1)), to=call.dtype(boxes))
        last = call.emit("Cast", call.emit("Sub", count, call.ints(1)), to=call.dtype(boxes))
        single = call.emit("Equal", last, call.like(0, boxes, "zero"))
        part = call.emit("Div", steps, call.emit("Max", last, call.like(1, boxes, "one")))
        part = call.emit("Where", single, call.like(0.5, boxes, "middle"), part)  # a single sample is in the middle
        low, high = (call.emit("Gather", boxes, call.ints([i]), axis=1) for i in (axis, axis + 2))
        places.append(call.emit("Add", low, call.emit("Mul", call.emit("Sub", high, low), part)))
    down, across = call.emit("Unsqueeze", places[0], call.ints([2])), call.emit("Unsqueeze", places[1], call.ints([1]))
    shape = call.emit("Concat", call.dim(boxes, 0), sizes, axis=0)
    whole = [call.emit("Expand", p, shape) for p in (across, down)]
    grid = call.emit("Concat", *(call.emit("Unsqueeze", p, call.ints([3])) for p in whole), axis=3)
    grid = call.emit("Sub", call.emit("Mul", grid, call.like(2, grid, "two")), call.like(1, grid, "one"))
    mode = _MODES.get(call.attr("mode", "bilinear"), call.attr("mode", "bilinear"))
    y = call.emit("GridSample", images, grid, mode=mode, padding_mode="border", align_corners=1)
    zero, one = call.like(0, boxes, "zero"), call.like(1, boxes, "one")
    inside = None
    for place in (down, across):
        within = call.emit("And", call.emit("GreaterOrEqual", place, zero), call.emit("LessOrEqual", place, one))
        inside = within if inside is None else call.emit("And", inside, within)
    beyond = call.like(call.attr("extrapolation_value", 0.0), y, "beyond")
    return [call.emit("Where", call.emit("Unsqueeze", inside, call.ints([1])), y, beyond)]


@converter("NGramRepeatBlock", domain=_MS)
def block_repeated_n_grams(call: Call) -> list[Value]:
    """Scores [batch, words], minus infinity for words that would repeat an n-gram of the ids [batch, length]."""
    ids, scores, n = call.operand(0), call.operand(1), call.attr("ngram_size")
    if n < 1:
        call.fail(f"ngram_size is at least 1, not {n}")
    ids = call.emit("Cast", ids, to=I64)
    length, axis = call.dim(ids, 1), call.ints([1])
    count = call.emit("Max", call.emit("Sub", length, call.ints([n - 1])), call.ints([0]))
    words = call.emit("Slice", ids, call.ints([n - 1]), length, axis)
    repeats = call.emit("Expand", call.const(True, BOOL, "true"), call.emit("Shape", words))
    for place in range(n - 1):
        begin = call.ints([place])
        held = call.emit("Slice", ids, begin, call.emit("Add", count, begin), axis)
        from_end = call.ints([place - (n - 1)])
        end = call.emit("Add", length, call.ints([place - (n - 1) + 1]))
        now = call.emit("Slice", ids, from_end, end, axis)
        repeats = call.emit("And", repeats, call.emit("Equal", held, now))
    none = call.emit("Expand", call.const(0, np.int32, "none"), call.emit("Shape", scores))
    marks = call.emit("Cast", repeats, to=np.dtype(np.int32))
    banned = call.emit("ScatterElements", none, words, marks, axis=1, reduction="max")
    hidden = call.like(-np.inf, scores, "hidden")
    return [call.emit("Where", call.emit("Cast", banned, to=BOOL), hidden, scores)]
