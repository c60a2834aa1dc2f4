"""Convolutions: weights from [..., inputs, outputs] to [outputs, inputs, ...], padding made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.layout import Layout, layout_of, padding_of, per_axis
from autofusion_frontend_tensorflow.registry import converter
from autofusion_frontend_tensorflow.sizes import known_dims


def kernel_size(call: Call, weight: Value, spatial: int) -> list[int]:
    """The spatial size of the weights, which are first in TensorFlow's order."""
    shape = weight.shape
    if shape is None or len(shape) != spatial + 2:
        call.fail(f"the weights '{weight.name}' must have {spatial + 2} axes, found {weight.type}")
    sizes = [d for d in shape[:spatial] if isinstance(d, int)]
    if len(sizes) != spatial:
        call.fail(f"the size of the weights '{weight.name}' must be known, found {weight.type}")
    return sizes


def channels(call: Call, value: Value, axis: int, what: str) -> int:
    """A number of channels, which must be known."""
    size = None if value.shape is None else value.shape[axis]
    if not isinstance(size, int):
        call.fail(f"the number of {what} of '{value.name}' must be known, found {value.type}")
    return size


def outputs_first(call: Call, weight: Value) -> Value:
    """[..., inputs, outputs] to [outputs, inputs, ...]."""
    rank = call.rank(weight)
    return call.transpose(weight, [rank - 1, rank - 2, *range(rank - 2)])


def depthwise_weight(call: Call, weight: Value) -> Value:
    """[kh, kw, channels, multiplier] to [channels * multiplier, 1, kh, kw]."""
    height, width, inputs, multiplier = (channels(call, weight, a, "elements") for a in range(4))
    moved = call.transpose(weight, [2, 3, 0, 1])
    return call.reshape(moved, [inputs * multiplier, 1, height, width])


def convolved(
    call: Call,
    layout: Layout,
    x: Value,
    weight: Value,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
) -> Value:
    """A convolution in TensorFlow's order of axes; groups follow from the shapes.

    ``dilations`` and ``pads`` (all begins, then all ends) stand in for what the node states.
    """
    depthwise = "Depthwise" in call.op
    spatial = layout.spatial
    kernel = kernel_size(call, weight, spatial)
    strides = per_axis(call, layout, call.attr("strides"), "strides")
    if dilations is None:
        dilations = per_axis(call, layout, call.attr("dilations"), "dilations")
    attrs: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": list(dilations)}
    attrs |= {"pads": list(pads)} if pads else padding_of(call, layout, x, kernel, strides, dilations).attrs
    inputs = channels(call, weight, spatial, "inputs")
    if depthwise:
        group, moved = inputs, depthwise_weight(call, weight)
    else:
        of = x.shape[layout.channel] if x.shape is not None else inputs
        if not isinstance(of, int):
            of = inputs
        if not inputs or of % inputs:
            call.fail(f"{of} channels cannot be split into groups of {inputs}, which the weights '{weight.name}' take")
        group, moved = of // inputs, outputs_first(call, weight)
    attrs["group"] = group
    return layout.back(call, call.emit("Conv", layout.first(call, x), moved, **attrs))


@converter("Conv2D", "DepthwiseConv2dNative")
def conv2d(call: Call) -> Value:
    """Operands: input, weights."""
    return convolved(call, layout_of(call), call.operand(0), call.operand(1))


@converter("Conv3D")
def conv3d(call: Call) -> Value:
    """Operands: input, weights."""
    return convolved(call, layout_of(call, 3), call.operand(0), call.operand(1))


@converter("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def transposed(call: Call) -> Value:
    """Operands: sizes of the result, weights [..., outputs, inputs], input."""
    layout = layout_of(call, 3 if "3D" in call.op else 2)
    sizes, weight, x = (call.operand(i) for i in range(3))
    spatial = layout.spatial
    kernel = kernel_size(call, weight, spatial)
    strides = per_axis(call, layout, call.attr("strides"), "strides")
    dilations = per_axis(call, layout, call.attr("dilations"), "dilations")
    group = 1
    if call.op.startswith("Depthwise"):
        group = channels(call, weight, 2, "inputs")
        moved = depthwise_weight(call, weight)
    else:
        moved = call.transpose(weight, [spatial + 1, spatial, *range(spatial)])
        inputs, given = channels(call, weight, spatial + 1, "inputs"), x.shape and x.shape[layout.channel]
        if isinstance(given, int) and given != inputs:
            call.fail(f"the weights '{weight.name}' take {inputs} channels, found {given}")
    attrs: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "group": group}
    first = layout.first(call, x)
    stated = known_dims(sizes) or ()
    wanted = [stated[axis] if axis < len(stated) else None for axis in layout.axes]
    own = [None] * spatial if x.shape is None else [x.shape[a] for a in layout.axes]
    if all(isinstance(n, int) for n in (*wanted, *own)):
        attrs |= _explicit(call, layout, wanted, own, kernel, strides, dilations)
        return layout.back(call, call.emit("ConvTranspose", first, moved, **attrs))
    return layout.back(call, _cropped(call, layout, first, moved, attrs))


def _forward_begin(call: Call, size: int, kernel: int, stride: int, dilation: int) -> int:
    """Begin of the padding that the convolution which this is the gradient of has on an input of ``size``."""
    if call.attr("padding", "VALID") != "SAME":
        return 0
    return max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0) // 2


def _explicit(
    call: Call,
    layout: Layout,
    wanted: Sequence[Any],
    own: Sequence[Any],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> dict[str, Any]:
    begins, ends, extra = [], [], []
    pairs = _explicit_begins(call, layout)
    for i, (size, given, k, s, d) in enumerate(zip(wanted, own, kernel, strides, dilations, strict=True)):
        begin = pairs[i] if pairs else _forward_begin(call, size, k, s, d)
        end = (given - 1) * s + (k - 1) * d + 1 - size - begin
        begins.append(begin)
        ends.append(max(end, 0))
        extra.append(max(-end, 0))
    return {"pads": begins + ends} | ({"output_padding": extra} if any(extra) else {})


def _explicit_begins(call: Call, layout: Layout) -> list[int] | None:
    if call.attr("padding", "VALID") != "EXPLICIT":
        return None
    given = [int(n) for n in call.attr("explicit_paddings", [])]
    if len(given) != 2 * layout.rank:
        call.fail(f"explicit_paddings must have {2 * layout.rank} numbers, found {given}")
    return [given[2 * a] for a in layout.axes]


def _cropped(call: Call, layout: Layout, x: Value, weight: Value, attrs: dict[str, Any]) -> Value:
    """Where sizes are only known at run time: the whole result, cropped to what is wanted (or filled up with zeros)."""
    count = layout.spatial
    sizes = call.vector(call.operand(0))
    wanted = call.emit("Concat", *(call.slice(sizes, 0, a, a + 1) for a in layout.axes), axis=0)
    strides, reach = attrs["strides"], []
    for k, s, d in zip(attrs["kernel_shape"], strides, attrs["dilations"], strict=True):
        reach.append((k - 1) * d + 1)
        if (k - 1) * d + 1 < s:
            call.fail("a stride larger than the kernel needs sizes that are known when the model is loaded")
    whole = call.emit("ConvTranspose", x, weight, **attrs, pads=[0] * 2 * count)
    begins = _explicit_begins(call, layout)
    if begins is not None:
        start = call.ints(begins)
    elif call.attr("padding", "VALID") == "SAME":
        # max((ceil(size / stride) - 1) * stride + reach - size, 0) // 2
        step = call.ints(strides)
        up = call.emit("Add", wanted, call.ints([s - 1 for s in strides]))
        steps = call.emit("Mul", call.emit("Sub", call.emit("Div", up, step), call.ints([1] * count)), step)
        total = call.emit("Sub", call.emit("Add", steps, call.ints(reach)), wanted)
        total = call.emit("Max", total, call.ints([0] * count))
        start = call.emit("Div", total, call.ints([2] * count))
    else:
        start = call.ints([0] * count)
    axes = call.ints(list(range(2, 2 + count)))
    # An output larger than the kernels reach is zero there.
    filled = call.emit("Pad", whole, call.ints([0] * count + list(strides)), None, axes)
    return call.emit("Slice", filled, start, call.emit("Add", start, wanted), axes)


@converter("ExtractImagePatches")
def patches(call: Call) -> Value:
    """Each window as channels, position by position: a convolution whose weights are ones and zeros."""
    layout, x = Layout(True, 2), call.operand(0)
    rows, columns = per_axis(call, layout, call.attr("ksizes"), "ksizes")
    depth = channels(call, x, 3, "channels")
    count = rows * columns * depth
    weight = call.const(np.eye(count).reshape(rows, columns, depth, count), call.dtype(x), "weight")
    return convolved(call, layout, x, weight, dilations=per_axis(call, layout, call.attr("rates"), "rates"))
