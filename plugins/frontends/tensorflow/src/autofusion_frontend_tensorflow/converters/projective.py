"""Images seen through a projective transform, sampled by gathering."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


@converter("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def projective(call: Call) -> Value:
    """Operands: images, transforms [1 or batch, 8], size of the result, what lies outside.

    Pixel (x, y) of the result is the image at ((a x + b y + c) / k, (d x + e y + f) / k) with k = g x + h y + 1;
    where k is 0, it lies outside.
    """
    images, transforms, size = call.operand(0), call.operand(1), call.vector(call.operand(2))
    fill = call.cast(call.operand(3), call.dtype(images)) if len(call.inputs) > 3 else call.like(0, images)
    y, x = (_numbers(call, call.slice(size, 0, k, k + 1)) for k in (0, 1))
    y, x = call.reshape(y, [1, -1, 1]), call.reshape(x, [1, 1, -1])
    a, b, c, d, e, f, g, h = (call.unsqueeze(call.slice(transforms, 1, k, k + 1), 2) for k in range(8))

    def line(first: Value, second: Value, third: Value) -> Value:
        return call.emit("Add", call.emit("Add", call.emit("Mul", first, x), call.emit("Mul", second, y)), third)

    scale = line(g, h, _number(call, 1))
    endless = call.emit("Equal", scale, _number(call, 0))
    mode = str(call.attr("fill_mode", "CONSTANT"))
    if mode not in _FOLDS:
        call.fail(f"fill_mode '{mode}' is not known; expected {', '.join(_FOLDS)}")
    limits = [call.cast(call.squeeze(call.dim(images, axis), 0), np.float32) for axis in (1, 2)]
    places = [call.emit("Div", part, scale) for part in (line(d, e, f), line(a, b, c))]
    places = [call.emit("Where", endless, _number(call, 0), place) for place in places]
    rows, columns = (_FOLDS[mode](call, place, limit) for place, limit in zip(places, limits, strict=True))
    if call.attr("interpolation", "NEAREST") == "BILINEAR":
        made = _bilinear(call, images, rows, columns, limits, fill)
    else:
        made = _read(call, images, _rounded(call, rows), _rounded(call, columns), limits, fill)
    return call.emit("Where", call.unsqueeze(endless, 3), fill, made)


def _number(call: Call, value: float) -> Value:
    return call.const(value, np.float32)


def _numbers(call: Call, count: Value) -> Value:
    """0, 1, ..., count - 1."""
    return call.cast(call.emit("Range", call.ints(0), call.squeeze(count, 0), call.ints(1)), np.float32)


def _rounded(call: Call, x: Value) -> Value:
    """To the nearest, halves away from zero, as the C library does."""
    size = call.emit("Floor", call.emit("Add", call.emit("Abs", x), _number(call, 0.5)))
    return call.emit("Mul", call.emit("Sign", x), size)


def _bilinear(call: Call, images: Value, rows: Value, columns: Value, limits: list[Value], fill: Value) -> Value:
    dtype, one = call.dtype(images), _number(call, 1)
    low = [call.emit("Floor", v) for v in (rows, columns)]
    high = [call.emit("Add", v, one) for v in low]
    share = [call.emit("Sub", v, at) for v, at in zip((rows, columns), low, strict=True)]
    lines = []
    for row in (low[0], high[0]):
        left, right = (
            call.cast(_read(call, images, row, column, limits, fill), np.float32) for column in (low[1], high[1])
        )
        lines.append(_mixed(call, left, right, share[1]))
    return call.cast(_mixed(call, lines[0], lines[1], share[0]), dtype)


def _mixed(call: Call, a: Value, b: Value, share: Value) -> Value:
    share = call.unsqueeze(share, 3)
    rest = call.emit("Sub", _number(call, 1), share)
    return call.emit("Add", call.emit("Mul", a, rest), call.emit("Mul", b, share))


def _read(call: Call, images: Value, rows: Value, columns: Value, limits: list[Value], fill: Value) -> Value:
    """Pixels [batch, rows, columns, channels] at whole places; ``fill`` for those outside."""
    zero, one = _number(call, 0), _number(call, 1)
    inside, indices = None, []
    for place, limit in zip((rows, columns), limits, strict=True):
        there = call.emit("And", call.emit("GreaterOrEqual", place, zero), call.emit("Less", place, limit))
        inside = there if inside is None else call.emit("And", inside, there)
        held = call.emit("Max", call.emit("Min", place, call.emit("Sub", limit, one)), zero)
        indices.append(call.unsqueeze(call.cast(held, np.int64), 3))
    assert inside is not None
    batch = call.reshape(call.as_ints(_numbers(call, call.dim(images, 0))), [-1, 1, 1, 1])
    shape = call.emit("Shape", call.emit("Add", call.emit("Add", indices[0], indices[1]), batch))
    index = call.emit("Concat", *(call.emit("Expand", v, shape) for v in (batch, *indices)), axis=3)
    return call.emit("Where", call.unsqueeze(inside, 3), call.emit("GatherND", images, index), fill)


def _as_it_is(call: Call, place: Value, limit: Value) -> Value:
    return place


def _held(call: Call, place: Value, limit: Value) -> Value:
    """The nearest place inside."""
    last = call.emit("Sub", limit, _number(call, 1))
    return call.emit("Max", call.emit("Min", place, last), _number(call, 0))


def _times(call: Call, place: Value, length: Value) -> Value:
    """How many whole lengths there are in ``place``."""
    return call.emit("Floor", call.emit("Div", place, length))


def _folded(call: Call, place: Value, limit: Value, before: Value, behind: Value) -> Value:
    """``before`` for places below 0, ``behind`` for those beyond the last, held inside; of one pixel, that."""
    zero, one = _number(call, 0), _number(call, 1)
    last = call.emit("Sub", limit, one)
    found = call.emit("Where", call.emit("Greater", place, last), behind, place)
    found = call.emit("Where", call.emit("Less", place, zero), before, found)
    return _held(call, call.emit("Where", call.emit("Greater", limit, one), found, zero), limit)


def _reflected(call: Call, place: Value, limit: Value) -> Value:
    """Mirrored at the edges of the outer pixels."""
    one, two = _number(call, 1), call.emit("Mul", limit, _number(call, 2))
    turned = call.emit("Neg", place)
    below = call.emit("Add", call.emit("Mul", two, _times(call, turned, two)), place)
    mirrored = call.emit("Sub", call.emit("Neg", below), one)
    deep = call.emit("Less", below, call.emit("Neg", limit))
    before = call.emit("Where", deep, call.emit("Add", below, two), mirrored)
    beyond = call.emit("Sub", place, call.emit("Mul", two, _times(call, place, two)))
    back = call.emit("Sub", call.emit("Sub", two, beyond), one)
    behind = call.emit("Where", call.emit("GreaterOrEqual", beyond, limit), back, beyond)
    return _folded(call, place, limit, before, behind)


def _wrapped(call: Call, place: Value, limit: Value) -> Value:
    """Begun again; a turn is counted as one pixel shorter than the image, as TensorFlow does."""
    one = _number(call, 1)
    turn = call.emit("Max", call.emit("Sub", limit, one), one)
    more = call.emit("Add", _times(call, call.emit("Neg", place), turn), one)
    before = call.emit("Add", place, call.emit("Mul", limit, more))
    behind = call.emit("Sub", place, call.emit("Mul", limit, _times(call, place, turn)))
    return _folded(call, place, limit, before, behind)


_FOLDS: dict[str, Callable[[Call, Value, Value], Value]] = {
    "CONSTANT": _as_it_is,
    "NEAREST": _held,
    "REFLECT": _reflected,
    "WRAP": _wrapped,
}
