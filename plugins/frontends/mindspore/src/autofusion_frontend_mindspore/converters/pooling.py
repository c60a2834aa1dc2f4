"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call, elements
from autofusion_frontend_mindspore.converters.convolution import (
    CHANNELS_LAST,
    channels_last,
    moved,
    pad_mode,
    pads,
    spatial_sizes,
)
from autofusion_frontend_mindspore.registry import converter


def _pooled(call: Call, op: str, value: Value, last: bool, attrs: dict[str, Any]) -> Value:
    if last:
        value = moved(call, value, False)
    result = call.emit(op, value, **attrs)
    return moved(call, result, True) if last else result


@converter("MaxPool")
def max_pool(call: Call) -> Value:
    """Over height and width; arguments are attributes with fillers for batch and channels."""
    attrs = {
        "kernel_shape": spatial_sizes(call, ["kernel_size", "ksize"], 2),
        "strides": spatial_sizes(call, ["strides", "stride"], 2, 1),
        **pads(call, 2, pad_mode(call)),
    }
    return _pooled(call, "MaxPool", call.tensor(0), channels_last(call), attrs)


@converter("AvgPool")
def average_pool(call: Call) -> Value:
    """Over height and width; pads do not count."""
    kernel = call.int_arguments(1, "kernel_size")[-2:]
    strides = call.int_arguments(2, "strides")[-2:]
    mode = call.argument(3, "pad_mode", "valid")
    call.attrs["pad_mode"] = {0: "pad", 1: "same", 2: "valid"}.get(mode, mode)
    last = call.argument(4, "format", call.attrs.get("data_format", "NCHW")) in CHANNELS_LAST
    attrs = {
        "kernel_shape": list(kernel) * (2 // len(kernel)),
        "strides": list(strides) * (2 // len(strides)),
        "count_include_pad": 0,
        **pads(call, 2, pad_mode(call)),
    }
    return _pooled(call, "AveragePool", call.tensor(0), last, attrs)


@converter("AvgPool3D")
def average_pool_3d(call: Call) -> Value:
    """Over depth, height and width; also what nn.AvgPool2d with explicit pads becomes, with a depth of one."""
    kernel = spatial_sizes(call, ["kernel_size"], 3)
    attrs = {
        "kernel_shape": kernel,
        "strides": spatial_sizes(call, ["strides"], 3, 1),
        "count_include_pad": int(bool(call.attrs.get("count_include_pad", True))),
        "ceil_mode": int(bool(call.attrs.get("ceil_mode", False))),
        **pads(call, 3, pad_mode(call)),
    }
    return _divided(call, call.tensor(0), attrs, call.attrs.get("divisor_override", 0))


def _divided(call: Call, value: Value, attrs: dict[str, Any], divisor: Any) -> Value:
    if not divisor:
        return call.emit("AveragePool", value, **attrs)
    # The sum of every window is the average over all of it, pads included, times its size.
    if attrs["ceil_mode"]:
        call.fail("divisor_override together with ceil_mode is not supported")
    whole = call.emit("AveragePool", value, **(attrs | {"count_include_pad": 1}))
    return call.emit("Mul", whole, call.like(float(np.prod(attrs["kernel_shape"])) / divisor, whole))


@converter("AvgPool1D", "AvgPool2D", "AvgPool3DExt")
def average_pool_ext(call: Call) -> Value:
    """(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)."""
    rank = {"AvgPool1D": 1, "AvgPool2D": 2, "AvgPool3DExt": 3}[call.op]
    kernel = _repeated(call.int_arguments(1, "kernel_size"), rank)
    attrs = {
        "kernel_shape": kernel,
        "strides": _repeated(call.int_arguments(2, "stride", None), rank) or kernel,
        "pads": _repeated(call.int_arguments(3, "padding", 0), rank) * 2,
        "ceil_mode": int(call.argument(4, "ceil_mode", False)),
        "count_include_pad": int(call.argument(5, "count_include_pad", True)),
    }
    return _divided(call, call.tensor(0), attrs, call.argument(6, "divisor_override", None))


def _repeated(numbers: Sequence[int], rank: int) -> list[int]:
    return list(numbers) * rank if len(numbers) == 1 else list(numbers)


@converter("MaxPoolWithArgmaxV2", "MaxPoolWithIndices", "MaxPoolWithMask")
def max_pool_with_argmax(call: Call) -> tuple[Value, Value | None]:
    """The maximum and its place in the plane. The leading two of four pads are fillers."""
    kernel, strides, padding, dilation = (
        _last_two(call.int_arguments(i, n, d))
        for i, n, d in ((1, "kernel_size", None), (2, "strides", None), (3, "pads", 0), (4, "dilation", 1))
    )
    attrs = {
        "kernel_shape": kernel,
        "strides": strides or kernel,
        "pads": padding * 2,
        "dilations": dilation,
        "ceil_mode": int(bool(call.argument(5, "ceil_mode", False))),
    }
    return _with_places(call, attrs)


def _last_two(numbers: Sequence[int]) -> list[int]:
    return list(numbers[-2:]) * (2 if len(numbers) == 1 else 1)


@converter("MaxPool3DWithArgmax")
def max_pool_3d_with_argmax(call: Call) -> tuple[Value, Value | None]:
    """Also what nn.MaxPool2d with explicit pads becomes, with a depth of one."""
    attrs: dict[str, Any] = {
        "kernel_shape": spatial_sizes(call, ["ksize", "kernel_size"], 3),
        "strides": spatial_sizes(call, ["strides"], 3),
        "pads": spatial_sizes(call, ["pads"], 3, 0) * 2,
        "dilations": spatial_sizes(call, ["dilation"], 3, 1),
        "ceil_mode": int(bool(call.attrs.get("ceil_mode", False))),
    }
    # One number stands for all dilations; along an axis where the kernel has one element there is none.
    attrs["dilations"] = [1 if k == 1 else d for d, k in zip(attrs["dilations"], attrs["kernel_shape"], strict=True)]
    return _with_places(call, attrs)


def _with_places(call: Call, attrs: dict[str, Any]) -> tuple[Value, Value | None]:
    value = call.tensor(0)
    if call.op == "MaxPoolWithMask":
        return call.emit("MaxPool", value, **attrs), None  # its mask of bits is for the gradient alone
    result, places = call.node("MaxPool", [value], attrs, outputs=2).outputs
    # ONNX counts places in the whole tensor, MindSpore in each plane.
    sizes = call.emit("Shape", value, start=2)
    plane = call.emit("ReduceProd", sizes, call.ints([0]), keepdims=0)
    within = call.emit("Mod", places, plane)
    return result, call.cast(within, call.result_dtype(1) or I64)


@converter("MaxPool3D")
def max_pool_3d(call: Call) -> Value:
    """Over depth, height and width."""
    attrs = {
        "kernel_shape": spatial_sizes(call, ["kernel_size"], 3),
        "strides": spatial_sizes(call, ["strides"], 3, 1),
        "ceil_mode": int(bool(call.attrs.get("ceil_mode") or 0)),
        **pads(call, 3, pad_mode(call)),
    }
    return call.emit("MaxPool", call.tensor(0), **attrs)


@converter(
    "AdaptiveAvgPool2D", "AdaptiveAvgPool2DExt", "AdaptiveAvgPool1D", "AdaptiveAvgPool3D", "AdaptiveAvgPool3DExt"
)
def adaptive_average_pool(call: Call) -> Value:
    """Windows from floor(i * in / out) to ceil((i + 1) * in / out) along each axis."""
    return _adaptive(call, "ReduceMean")


@converter("AdaptiveMaxPool1D", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D")
def adaptive_max_pool(call: Call) -> Any:
    """As the average, with the maximum; a second result is its place in the line, plane or volume."""
    result = _adaptive(call, "ReduceMax")
    if not isinstance(call.declared, tuple):
        return result
    value, axes, sizes, outs = _adaptive_sizes(call)
    windows = [
        [range(i * size // out, -((i + 1) * size // -out)) for i in range(out)]
        for size, out in zip(sizes, outs, strict=True)
    ]
    return result, call.cast(_places(call, value, len(axes), sizes, windows), call.result_dtype(1))


def _places(call: Call, value: Value, count: int, sizes: list[int], windows: list[list[range]]) -> Value:
    """The place of each window's greatest element, counted through the last ``count`` axes."""
    table = _windows_table(sizes, windows)
    shape = call.emit("Shape", value, end=call.rank(value) - count)
    flat = call.emit("Reshape", value, call.emit("Concat", shape, call.ints([int(np.prod(sizes))]), axis=0))
    found = call.emit("Gather", flat, call.const(table, I64), axis=-1)
    chosen = call.emit("ArgMax", found, axis=-1, keepdims=1)
    every = call.emit("Expand", call.const(table, I64), call.emit("Shape", found))
    place = call.emit("GatherElements", every, chosen, axis=-1)
    outs = call.ints([len(along) for along in windows])
    return call.emit("Reshape", place, call.emit("Concat", shape, outs, axis=0))


def _windows_table(sizes: Sequence[int], windows: Sequence[Sequence[range]]) -> np.ndarray:
    """[windows, elements]: places in the flattened axes; a smaller window repeats its first element."""
    table = np.zeros((1, 1), np.int64)
    for size, along in zip(sizes, windows, strict=True):
        width = max(len(each) for each in along)
        one = np.array([[*each, *[each[0]] * (width - len(each))] for each in along])
        # Every window so far, in this axis's window: the later axis counts faster.
        table = (table[:, None, :, None] * size + one[None, :, None, :]).reshape(
            table.shape[0] * one.shape[0], table.shape[1] * one.shape[1]
        )
    return table


@converter("FractionalMaxPoolWithFixedKsize", "FractionalMaxPool3DWithFixedKsize")
def fractional_max_pool(call: Call) -> Any:
    """(x, random numbers [N, C, axes]) -> (maximum, place): windows of one size, at places that the numbers choose.

    Along an axis, window i of n begins at floor((i + u) * a) - floor(u * a), where a is (in - kernel) / (n - 1), and
    the last one ends with the axis. The numbers are those of height and width in reverse, or of depth, height, width.
    """
    value, chosen = call.tensor(0), call.tensor(1)
    count = 3 if "3D" in call.op else 2
    if str(call.argument(9, "data_format", "NCHW")) not in ("NCHW", "NCDHW"):
        call.fail("only formats with the channels in front are supported")
    kernel, outs = ([int(n) for n in call.int_arguments(9, name)][-count:] for name in ("ksize", "output_shape"))
    kernel, outs = (n * count if len(n) == 1 else n for n in (kernel, outs))
    sizes = [call.static_dim(value, i + 2) for i in range(count)]
    place = call.const(0, I64)
    for axis, (size, width, out) in enumerate(zip(sizes, kernel, outs, strict=True)):
        number = call.emit("Gather", chosen, call.ints([axis if count == 3 else 1 - axis]), axis=2)
        step = (size - width) / (out - 1) if out > 1 else 0.0
        steps = call.const(np.arange(out) * step, number.dtype)
        offset = call.emit("Mul", number, call.like(step, number))
        begin = call.emit("Sub", call.emit("Floor", call.emit("Add", offset, steps)), call.emit("Floor", offset))
        last = call.const(np.arange(out) == out - 1, np.bool_)
        begin = call.emit("Where", last, call.const(size - width, I64), call.cast(begin, I64))
        within = call.emit("Add", call.emit("Unsqueeze", begin, call.ints([3])), call.const(np.arange(width), I64))
        # [N, C, out..., kernel...]: this axis's number among those of the others.
        axes = [2 + i for i in range(2 * count) if i not in (axis, count + axis)]
        place = call.emit(
            "Add",
            call.emit("Mul", place, call.const(size, I64)),
            call.emit("Unsqueeze", within, call.ints(axes)),
        )
    lead = call.emit("Shape", value, end=2)
    flat = call.emit("Reshape", value, call.emit("Concat", lead, call.ints([-1]), axis=0))
    every = call.emit("Reshape", place, call.emit("Concat", lead, call.ints([-1]), axis=0))
    shape = call.emit("Concat", lead, call.ints([int(np.prod(outs)), int(np.prod(kernel))]), axis=0)
    found = call.emit("Reshape", call.emit("GatherElements", flat, every, axis=2), shape)
    best = call.emit("ArgMax", found, axis=3, keepdims=1)
    results = [call.emit("GatherElements", v, best, axis=3) for v in (found, call.emit("Reshape", every, shape))]
    whole = call.emit("Concat", lead, call.ints(outs), axis=0)
    greatest, at = (call.emit("Reshape", v, whole) for v in results)
    return elements(call, greatest, call.cast(at, call.result_dtype(1)))


def _adaptive(call: Call, reduce: str) -> Value:
    value = call.tensor(0)
    count, wanted = _adaptive_wanted(call)
    rank = call.rank(value)
    axes = list(range(rank - count, rank))
    if wanted == [1] * count:
        if rank == count + 2:
            return call.emit("GlobalAveragePool" if reduce == "ReduceMean" else "GlobalMaxPool", value)
        return call.emit(reduce, value, call.ints(axes), keepdims=1)
    _, _, sizes, outs = _adaptive_sizes(call)
    if all(size % out == 0 for size, out in zip(sizes, outs, strict=True)) and rank == count + 2:
        kernel = [size // out for size, out in zip(sizes, outs, strict=True)]
        return call.emit(
            "AveragePool" if reduce == "ReduceMean" else "MaxPool", value, kernel_shape=kernel, strides=kernel
        )
    for axis, size, out in zip(axes, sizes, outs, strict=True):
        value = _along(call, reduce, value, axis, size, out)
    return value


def _adaptive_wanted(call: Call) -> tuple[int, list[Any]]:
    """The number of axes, and the size that is wanted of each: a number, or None (or -1) for the operand's."""
    given = call.argument(1, "output_size")
    wanted = list(given) if isinstance(given, tuple) else [given]
    count = int(next(c for c in call.op if c in "123"))
    return count, wanted * count if len(wanted) == 1 else wanted


def _adaptive_sizes(call: Call) -> tuple[Value, list[int], list[int], list[int]]:
    """(operand, axes, their sizes, those of the result)."""
    value = call.tensor(0)
    count, wanted = _adaptive_wanted(call)
    axes = list(range(call.rank(value) - count, call.rank(value)))
    sizes = [call.static_dim(value, axis) for axis in axes]
    return value, axes, sizes, [s if w in (None, -1) else int(w) for s, w in zip(sizes, wanted, strict=True)]


def _along(call: Call, reduce: str, value: Value, axis: int, size: int, out: int) -> Value:
    if size == out:
        return value
    at = call.ints([axis])
    windows = [(i * size // out, -((i + 1) * size // -out)) for i in range(out)]
    parts = [
        call.emit(reduce, call.emit("Slice", value, call.ints([low]), call.ints([high]), at), at, keepdims=1)
        for low, high in windows
    ]
    return parts[0] if out == 1 else call.emit("Concat", *parts, axis=axis)
