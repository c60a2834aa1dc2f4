"""Windows over images as columns, and columns added up to images."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter


@converter("Im2Col")
def im2col(call: Call) -> Value:
    """Windows as columns: [N, C, kernel, places]."""
    kernel, strides, dilations = (_pair(call.int_arguments(9, n, 1)) for n in ("ksizes", "strides", "dilations"))
    value = call.tensor(0)
    pads = _pair(call.int_arguments(9, "pads", 0))
    if any(pads):
        value = call.emit("Pad", value, call.ints([0, 0, *pads, 0, 0, *pads]))
    windows, shape = _windows(call, value, kernel, strides, dilations)
    return call.emit("Reshape", windows, call.ints([-1, shape[0], kernel[0] * kernel[1], shape[1] * shape[2]]))


@converter("ExtractImagePatches")
def extract_image_patches(call: Call) -> Value:
    """Windows as channels: [N, kernel * C, rows, columns], what nn.Unfold becomes."""
    kernel, strides, rates = (_pair(call.int_arguments(i, n)) for i, n in ((1, "ksizes"), (2, "strides"), (3, "rates")))
    value, padding = call.tensor(0), call.argument(4, "padding", "valid")
    if padding in (1, "same", "SAME"):
        pads = []
        for axis, k, stride, rate in zip((2, 3), kernel, strides, rates, strict=True):
            size = call.static_dim(value, axis)
            pads.append(max((-(size // -stride) - 1) * stride + rate * (k - 1) + 1 - size, 0))
        before = [p // 2 for p in pads]
        value = call.emit(
            "Pad", value, call.ints([0, 0, *before, 0, 0, *(p - b for p, b in zip(pads, before, strict=True))])
        )
    elif padding not in (2, "valid", "VALID"):
        call.fail(f"unknown padding {padding!r}")
    windows, (channels, rows, columns) = _windows(call, value, kernel, strides, rates)
    count = kernel[0] * kernel[1]
    windows = call.emit("Transpose", windows, perm=[0, 2, 1, 3])
    return call.emit("Reshape", windows, call.ints([-1, count * channels, rows, columns]))


def _pair(numbers: tuple[int, ...]) -> list[int]:
    """One number for each of height and width; four have fillers in front."""
    return list(numbers[-2:]) * (2 if len(numbers) == 1 else 1)


def _windows(
    call: Call, value: Value, kernel: list[int], strides: list[int], dilations: list[int]
) -> tuple[Value, tuple[int, int, int]]:
    """[N, C, kernel, places] by one gather over the plane, and (channels, rows, columns)."""
    channels, height, width = (call.static_dim(value, i) for i in (1, 2, 3))
    rows, columns = (
        (size - dilation * (k - 1) - 1) // stride + 1
        for size, k, stride, dilation in zip((height, width), kernel, strides, dilations, strict=True)
    )
    down = np.arange(kernel[0])[:, None] * dilations[0] + np.arange(rows)[None] * strides[0]
    along = np.arange(kernel[1])[:, None] * dilations[1] + np.arange(columns)[None] * strides[1]
    index = (down[:, None, :, None] * width + along[None, :, None, :]).reshape(kernel[0] * kernel[1], rows * columns)
    flat = call.emit("Reshape", value, call.ints([-1, channels, height * width]))
    return call.emit("Gather", flat, call.const(index, I64), axis=2), (channels, rows, columns)


@converter("Im2ColExt")
def im2col_ext(call: Call) -> Value:
    """(x, kernel, dilation, padding, stride): windows as columns, [N, C * kernel, places]; x may lack the batch."""
    kernel, dilations, pads, strides = (
        _pair(call.int_arguments(i, n, d))
        for i, n, d in ((1, "kernel_size", None), (2, "dilation", 1), (3, "padding", 0), (4, "stride", 1))
    )
    value = call.tensor(0)
    single = call.rank(value) == 3
    if single:
        value = call.emit("Unsqueeze", value, call.ints([0]))
    if any(pads):
        value = call.emit("Pad", value, call.ints([0, 0, *pads, 0, 0, *pads]))
    windows, (channels, rows, columns) = _windows(call, value, kernel, strides, dilations)
    shape = [channels * kernel[0] * kernel[1], rows * columns]
    return call.emit("Reshape", windows, call.ints(shape if single else [-1, *shape]))


def _added_up(call: Call, columns: Value, size: Any, arguments: list[list[int]]) -> Value:
    kernel, dilations, pads, strides = arguments
    attrs = {"dilations": dilations, "pads": pads * 2, "strides": strides}
    return call.emit("Col2Im", columns, call.sizes(size), call.ints(kernel), **attrs)


@converter("Col2Im")
def col2im(call: Call) -> Value:
    """(x [N, C, kernel, places], size): each element added to its place in an image. Arguments are attributes."""
    value = call.tensor(0)
    names = ("kernel_size", "dilation", "padding", "stride")
    arguments = [_pair(call.int_arguments(9, n, 0 if n == "padding" else 1)) for n in names]
    channels, places = (call.static_dim(value, i) for i in (1, 3))
    columns = call.emit("Reshape", value, call.ints([-1, channels * call.static_dim(value, 2), places]))
    return _added_up(call, columns, call.args[1], arguments)


@converter("Col2ImExt")
def col2im_ext(call: Call) -> Value:
    """(x [N, C * kernel, places], size, kernel, dilation, padding, stride); x may lack the batch."""
    value = call.tensor(0)
    names = ("kernel_size", "dilation", "padding", "stride")
    arguments = [_pair(call.int_arguments(i, n)) for i, n in enumerate(names, 2)]
    size = call.args[1]
    if isinstance(size, tuple) and len(size) == 1:
        size *= 2
    if call.rank(value) == 3:
        return _added_up(call, value, size, arguments)
    at = call.ints([0])
    return call.emit("Squeeze", _added_up(call, call.emit("Unsqueeze", value, at), size, arguments), at)
