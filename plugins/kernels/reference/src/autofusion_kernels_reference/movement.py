"""Operators that move elements by position (reshape, transpose, slice, pad, tile, join, split) or make constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, normal_axes, normal_axis, optional


def _reshape(node: Node, inputs: Inputs) -> list[Any]:
    x, shape = inputs[0], integers(inputs[1])
    if not node.attr("allowzero", 0):
        shape = [x.shape[i] if d == 0 else d for i, d in enumerate(shape)]
    if -1 in shape:
        # Stated explicitly: NumPy refuses -1 beside a zero dim, though 0 / (product of the others) is well defined
        # as long as that product is not zero itself.
        others = math.prod(d for d in shape if d != -1)
        if others == 0 or x.size % others:
            raise ValueError(f"cannot reshape {x.shape} into {tuple(shape)}")
        shape = [x.size // others if d == -1 else d for d in shape]
    return [x.reshape(shape)]


def _transpose(node: Node, inputs: Inputs) -> list[Any]:
    return [np.transpose(inputs[0], node.attr("perm"))]


def _squeeze(node: Node, inputs: Inputs) -> list[Any]:
    x, axes = inputs[0], optional(inputs, 1)
    return [np.squeeze(x) if axes is None else np.squeeze(x, normal_axes(integers(axes), x.ndim))]


def _unsqueeze(node: Node, inputs: Inputs) -> list[Any]:
    return [np.expand_dims(inputs[0], tuple(integers(inputs[1])))]


def _flatten(node: Node, inputs: Inputs) -> list[Any]:
    x, axis = inputs[0], node.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return [x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))]


def _concat(node: Node, inputs: Inputs) -> list[Any]:
    return [np.concatenate(list(inputs), axis=node.attrs["axis"])]


def split_points(size: int, parts: int) -> list[int]:
    """Sizes of ``parts`` chunks of ``size``: equal, but for a smaller last one."""
    chunk = -(-size // parts)
    return [max(0, min(chunk, size - i * chunk)) for i in range(parts)]


def _split(node: Node, inputs: Inputs) -> list[Any]:
    x, sizes = inputs[0], optional(inputs, 1)
    axis = normal_axis(node.attr("axis", 0), x.ndim)
    if sizes is None:
        parts = split_points(x.shape[axis], node.attr("num_outputs", len(node.outputs)))
    else:
        parts = integers(sizes)
    if sum(parts) != x.shape[axis] or len(parts) != len(node.outputs):
        raise ValueError(f"cannot split axis {axis} of {x.shape} into {len(node.outputs)} results of sizes {parts}")
    return np.split(x, np.cumsum(parts)[:-1].tolist(), axis)


def _slice(node: Node, inputs: Inputs) -> list[Any]:
    x, starts, ends = inputs[0], integers(inputs[1]), integers(inputs[2])
    axes = optional(inputs, 3)
    axes = range(len(starts)) if axes is None else normal_axes(integers(axes), x.ndim)
    steps = optional(inputs, 4)
    steps = [1] * len(starts) if steps is None else integers(steps)
    index: list[Any] = [slice(None)] * x.ndim
    # Python's slices clamp exactly as the operator does: negative positions count from the end once, then are clamped.
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    return [x[tuple(index)]]


_PAD_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def pad(x: np.ndarray, low: list[int], high: list[int], mode: str = "constant", value: Any = None) -> np.ndarray:
    """``x`` with ``low`` and ``high`` elements added at each axis; negative counts remove them (first)."""
    crop = tuple(
        slice(max(0, -a), max(max(0, -a), size - max(0, -b))) for a, b, size in zip(low, high, x.shape, strict=True)
    )
    x = x[crop]
    widths = [(max(0, a), max(0, b)) for a, b in zip(low, high, strict=True)]
    if mode == "constant":
        shape = [a + size + b for (a, b), size in zip(widths, x.shape, strict=True)]
        if value is None:
            value = "" if x.dtype.kind == "O" else np.zeros((), x.dtype)
        out = np.empty(shape, x.dtype)
        out[...] = value
        out[tuple(slice(a, a + size) for (a, _), size in zip(widths, x.shape, strict=True))] = x
        return out
    return np.pad(x, widths, mode=_PAD_MODES[mode])  # type: ignore[call-overload]


def _pad(node: Node, inputs: Inputs) -> list[Any]:
    x, pads = inputs[0], integers(inputs[1])
    value, axes = optional(inputs, 2), optional(inputs, 3)
    chosen = normal_axes(None if axes is None else integers(axes), x.ndim)
    if len(pads) != 2 * len(chosen):
        raise ValueError(f"expected {2 * len(chosen)} pads for {len(chosen)} axes, found {len(pads)}")
    low, high = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(chosen):
        low[axis], high[axis] = pads[i], pads[i + len(chosen)]
    return [pad(x, low, high, node.attr("mode", "constant"), None if value is None else np.asarray(value).reshape(()))]


def _expand(node: Node, inputs: Inputs) -> list[Any]:
    x, shape = inputs[0], tuple(integers(inputs[1]))
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, shape))]


def _tile(node: Node, inputs: Inputs) -> list[Any]:
    return [np.tile(inputs[0], integers(inputs[1]))]


def _depth_to_space(node: Node, inputs: Inputs) -> list[Any]:
    x, block = inputs[0], node.attrs["blocksize"]
    n, c, h, w = x.shape
    if node.attr("mode", "DCR") == "DCR":
        y = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return [y.reshape(n, c // block**2, h * block, w * block)]


def _space_to_depth(node: Node, inputs: Inputs) -> list[Any]:
    x, block = inputs[0], node.attrs["blocksize"]
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return [y.reshape(n, c * block**2, h // block, w // block)]


def _shape(node: Node, inputs: Inputs) -> list[Any]:
    shape = inputs[0].shape
    return [np.array(shape[node.attr("start", 0) : node.attr("end", len(shape))], np.int64)]


def _size(node: Node, inputs: Inputs) -> list[Any]:
    return [np.array(inputs[0].size, np.int64)]


def _constant_of_shape(node: Node, inputs: Inputs) -> list[Any]:
    value = node.attr("value")
    value = np.zeros(1, np.float32) if value is None else value
    return [np.full(integers(inputs[0]), value.reshape(()), value.dtype)]


_SCALARS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


def _constant(node: Node, inputs: Inputs) -> list[Any]:
    if "value" in node.attrs:
        return [node.attrs["value"]]
    for name, dtype in _SCALARS.items():
        if name in node.attrs:
            return [np.array(node.attrs[name], dtype)]
    raise ValueError(f"expected one of the attributes value, {', '.join(_SCALARS)}")


def _range(node: Node, inputs: Inputs) -> list[Any]:
    start, limit, delta = (np.asarray(v).reshape(()) for v in inputs)
    if delta == 0:
        raise ValueError("expected a delta other than 0")
    exact = start.dtype.kind in "iu"
    if exact:
        count = max(0, -((int(limit) - int(start)) // -int(delta)))
    else:
        count = max(0, math.ceil((float(limit) - float(start)) / float(delta)))
    steps = np.arange(count, dtype=np.int64 if exact else np.float64)
    return [(start.astype(steps.dtype) + steps * delta.astype(steps.dtype)).astype(start.dtype)]


def _eye_like(node: Node, inputs: Inputs) -> list[Any]:
    rows, columns = inputs[0].shape
    return [np.eye(rows, columns, node.attr("k", 0)).astype(node.attr("dtype", inputs[0].dtype))]


def _trilu(node: Node, inputs: Inputs) -> list[Any]:
    x, k = inputs[0], optional(inputs, 1)
    k = 0 if k is None else int(np.asarray(k).reshape(()))
    rows, columns = x.shape[-2:]
    upper = bool(node.attr("upper", 1))
    keep = np.tri(rows, columns, k - 1 if upper else k, dtype=bool) ^ upper
    return [np.where(keep, x, np.zeros((), x.dtype))]


def _center_crop_pad(node: Node, inputs: Inputs) -> list[Any]:
    x, shape = inputs[0], integers(inputs[1])
    low, high = [0] * x.ndim, [0] * x.ndim
    for axis, size in zip(normal_axes(node.attr("axes"), x.ndim), shape, strict=True):
        change = size - x.shape[axis]
        # An odd pixel is padded at the end, and cropped at the end: the start moves by half, rounded toward zero.
        low[axis] = change // 2 if change > 0 else -(-change // 2)
        high[axis] = change - low[axis]
    return [pad(x, low, high)]


def _reverse_sequence(node: Node, inputs: Inputs) -> list[Any]:
    x, lengths = inputs
    batch, time = node.attr("batch_axis", 1), node.attr("time_axis", 0)
    y = np.moveaxis(x, (batch, time), (0, 1)).copy()
    for row, length in zip(y, integers(lengths), strict=True):
        row[:length] = row[:length][::-1].copy()
    return [np.moveaxis(y, (0, 1), (batch, time))]


def _identity(node: Node, inputs: Inputs) -> list[Any]:
    return [inputs[0]]


OPS: dict[str, OpFunction] = {
    "CenterCropPad": _center_crop_pad,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Identity": _identity,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}
