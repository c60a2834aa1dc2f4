"""Dilation of images by a structuring function."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.layout import Layout, padding_of, per_axis
from autofusion_frontend_tensorflow.registry import converter

_LAYOUT = Layout(True, 2)


@converter("Dilation2D")
def dilation(call: Call) -> Value:
    """The greatest of element plus filter over a window [rows, columns] of each channel; padding counts nowhere."""
    x, filter_ = call.operand(0), call.operand(1)
    sizes = [d for d in (filter_.shape or ())[:2] if isinstance(d, int)]
    if len(sizes) != 2:
        call.fail("the size of its filter must be known; save the model with the shape of its inputs")
    strides = per_axis(call, _LAYOUT, call.attr("strides"), "strides")
    rates = per_axis(call, _LAYOUT, call.attr("rates"), "rates")
    padding = padding_of(call, _LAYOUT, x, sizes, strides, rates)
    if padding.same:
        call.fail("SAME padding with strides needs the size of the image; save the model with the shape of its inputs")
    dtype = call.dtype(x)
    least = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    if any(padding.begin + padding.end):
        amounts = call.ints([0, *padding.begin, 0, 0, *padding.end, 0])
        x = call.emit("Pad", x, amounts, call.const(least, dtype))
    spans = [
        call.emit("Sub", call.dim(x, axis + 1), call.ints([(size - 1) * rate]))
        for axis, (size, rate) in enumerate(zip(sizes, rates, strict=True))
    ]
    steps, axes = call.ints(strides), call.ints([1, 2])
    taps = []
    for row in range(sizes[0]):
        for column in range(sizes[1]):
            first = call.ints([row * rates[0], column * rates[1]])
            end = call.emit("Add", first, call.emit("Concat", *spans, axis=0))
            part = call.emit("Slice", x, first, end, axes, steps)
            weight = call.squeeze(call.slice(call.slice(filter_, 0, row, row + 1), 1, column, column + 1), 0, 1)
            taps.append(call.emit("Add", part, weight))
    return taps[0] if len(taps) == 1 else call.emit("Max", *taps)
