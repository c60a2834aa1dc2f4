"""Convolutions. A primitive says how it is padded by a mode and, where that was resolved, by a list of pads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
CHANNELS_LAST = ("NHWC", 1, "NDHWC")


def channels_last(call: Call, index: int = -1) -> bool:
    """True if the node says that its data has the channels on the last axis."""
    return call.argument(index, "format", call.attrs.get("data_format", "NCHW")) in CHANNELS_LAST


def moved(call: Call, value: Value, last: bool) -> Value:
    """Channels moved to axis 1 (or, with ``last``, back to the end)."""
    rank = call.rank(value)
    spatial = list(range(1, rank - 1))
    return call.emit("Transpose", value, perm=[0, *(i + 1 for i in spatial), 1] if last else [0, rank - 1, *spatial])


def spatial_sizes(call: Call, names: Sequence[str], rank: int, default: Any = None) -> list[int]:
    """An attribute with a number for each spatial axis: some have fillers for batch and channels in front."""
    value = next((call.attrs[n] for n in names if n in call.attrs), default)
    if value is None:
        call.fail(f"it has no attribute '{names[0]}'")
    numbers = [int(v) for v in (value if isinstance(value, tuple) else (value,))]
    if len(numbers) == 1:
        numbers *= rank
    if len(numbers) < rank:
        call.fail(f"attribute '{names[0]}' has {len(numbers)} numbers, expected {rank}")
    return numbers[len(numbers) - rank :]


def pad_mode(call: Call) -> str:
    """`same`, `valid` or `pad`."""
    mode = call.attrs.get("pad_mode", "pad")
    mode = {0: "pad", 1: "same", 2: "valid"}.get(mode, mode) if isinstance(mode, int) else str(mode).lower()
    if mode not in ("same", "valid", "pad"):
        call.fail(f"unknown pad_mode '{mode}'")
    return str(mode)


def pads(call: Call, rank: int, mode: str) -> dict[str, Any]:
    """The ONNX attributes for the padding. ``same`` puts the odd element at the end."""
    if mode == "same":
        return {"auto_pad": "SAME_UPPER"}
    if mode == "valid":
        return {"pads": [0] * (2 * rank)}
    stated = next((call.attrs[n] for n in ("pad_list", "pad", "pads", "padding") if n in call.attrs), 0)
    numbers = [int(v) for v in stated] if isinstance(stated, tuple) else [int(stated)] * (2 * rank)
    if len(numbers) != 2 * rank or min(numbers) < 0:
        call.fail(f"its padding is {list(numbers)}, expected {2 * rank} numbers that are not negative")
    # Beginning and end of each axis lie side by side; ONNX has all beginnings first.
    return {"pads": [*numbers[0::2], *numbers[1::2]]}


def convolve(call: Call, rank: int) -> Value:
    """A convolution over ``rank`` spatial axes; its bias is a primitive of its own."""
    value, weight = call.tensor(0), call.tensor(1)
    last = channels_last(call)
    if last:
        value, weight = moved(call, value, False), moved(call, weight, False)
    attrs = {
        "strides": spatial_sizes(call, ["stride", "strides"], rank, 1),
        "dilations": spatial_sizes(call, ["dilation", "dilations"], rank, 1),
        "group": int(call.attrs.get("group", call.attrs.get("groups", 1))),
        **pads(call, rank, pad_mode(call)),
    }
    attrs["kernel_shape"] = [call.static_dim(weight, i) for i in range(2, 2 + rank)]
    result = _convolved(call, value, weight, call.optional(2), attrs)
    return moved(call, result, True) if last else result


def _convolved(call: Call, value: Value, weight: Value, bias: Value | None, attrs: dict[str, Any]) -> Value:
    """The convolution in the element type of the result, which of bytes may be a wider integer."""
    dtype = call.result_dtype()
    if dtype == np.dtype(np.int32) and all(v.dtype in _BYTES for v in (value, weight)):
        result = call.emit("ConvInteger", value, weight, **attrs)
        if bias is None:
            return result
        shape = call.ints([-1] + [1] * (call.rank(weight) - 2))
        return call.emit("Add", result, call.emit("Reshape", call.cast(bias, dtype), shape))
    value, weight = call.cast(value, dtype), call.cast(weight, dtype)
    return call.emit("Conv", value, weight, None if bias is None else call.cast(bias, dtype), **attrs)


@converter("Conv2D")
def conv2d(call: Call) -> Value:
    """Over height and width."""
    return convolve(call, 2)


@converter("Conv3D")
def conv3d(call: Call) -> Value:
    """Over depth, height and width."""
    return convolve(call, 3)


@converter("Conv1DExt", "Conv2DExt", "Conv3DExt", "Conv1DPadding", "Conv2DPadding", "Conv3DPadding")
def conv_ext(call: Call) -> Value:
    """The convolution of mindspore.mint: operands are (x, weight, bias, stride, padding, dilation, groups)."""
    rank = int(call.op[4])
    return _convolution(call, rank, call.args[3:7])


def _convolution(call: Call, rank: int, rest: Sequence[Any]) -> Value:
    value, weight, bias = call.tensor(0), call.tensor(1), call.optional(2)
    stride, padding, dilation = (
        call.python(v, n) for v, n in zip(rest, ("stride", "padding", "dilation"), strict=False)
    )
    attrs: dict[str, Any] = {
        "strides": _repeated(stride, rank),
        "dilations": _repeated(dilation, rank),
        "group": int(call.python(rest[3], "groups")) if len(rest) > 3 else 1,
        "kernel_shape": [call.static_dim(weight, i) for i in range(2, 2 + rank)],
    }
    modes = {"same": "SAME_UPPER", 1: "SAME_UPPER", "valid": "VALID", 2: "VALID"}
    if call.op.endswith("Padding") or isinstance(padding, str):
        if padding not in modes:
            call.fail(f"unknown padding {padding!r}")
        attrs["auto_pad"] = modes[padding]
    else:
        attrs["pads"] = _repeated(padding, rank) * 2
    squeezed = call.rank(value) == rank + 1  # no batch axis
    if squeezed:
        value = call.emit("Unsqueeze", value, call.ints([0]))
    result = _convolved(call, value, weight, bias, attrs)
    return call.emit("Squeeze", result, call.ints([0])) if squeezed else result


def _repeated(value: Any, rank: int) -> list[int]:
    numbers = [int(v) for v in value] if isinstance(value, tuple) else [int(value)]
    return numbers * rank if len(numbers) == 1 else numbers


@converter("Convolution", "ConvolutionStr")
def convolution(call: Call) -> Value:
    """(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)."""
    rank = call.rank(call.tensor(1)) - 2
    if call.argument(6, "transposed", False):
        return _transposed(call, rank, call.args[3], call.args[4], call.args[7], call.args[8], call.args[5])
    return _convolution(call, rank, [call.args[3], call.args[4], call.args[5], call.args[8]])


@converter("ConvTranspose2D")
def conv_transpose_2d(call: Call) -> Value:
    """(x, weight, bias, stride, padding, output_padding, groups, dilation)."""
    return _transposed(call, 2, *call.args[3:8])


def _transposed(
    call: Call, rank: int, stride: Any, padding: Any, output_padding: Any, groups: Any, dilation: Any
) -> Value:
    attrs = {
        "strides": _repeated(call.python(stride, "stride"), rank),
        "pads": _repeated(call.python(padding, "padding"), rank) * 2,
        "output_padding": _repeated(call.python(output_padding, "output_padding"), rank),
        "group": int(call.python(groups, "groups")),
        "dilations": _repeated(call.python(dilation, "dilation"), rank),
    }
    weight = call.tensor(1)
    attrs["kernel_shape"] = [call.static_dim(weight, i) for i in range(2, 2 + rank)]
    return call.emit("ConvTranspose", call.tensor(0), weight, call.optional(2), **attrs)


@converter("Conv2DTranspose", "Conv2DBackpropInput")
def conv2d_transpose(call: Call) -> Value:
    """The gradient of a convolution; its result has the size that the third operand says, whatever pads that takes."""
    return _backprop(call, 2)


@converter("Conv3DTranspose")
def conv3d_transpose(call: Call) -> Value:
    """As that over two axes, but its result follows from the pads."""
    return _backprop(call, 3)


def _backprop(call: Call, rank: int) -> Value:
    value, weight = call.tensor(0), call.tensor(1)
    strides = spatial_sizes(call, ["stride", "strides"], rank, 1)
    dilations = spatial_sizes(call, ["dilation", "dilations"], rank, 1)
    kernel = [call.static_dim(weight, i) for i in range(2, 2 + rank)]
    mode = pad_mode(call)
    outs = _result_sizes(call, rank)
    attrs: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "kernel_shape": kernel,
        "group": int(call.attrs.get("group", call.attrs.get("groups", 1))),
    }
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    sizes: Sequence[Any] = value.shape[2:] if value.shape is not None else [None] * rank
    stated = [0] * (2 * rank) if mode == "same" else pads(call, rank, mode)["pads"]
    stating = call.has(2) and isinstance(call.args[2], tuple)
    extra, cut = [], False
    for i, (size, out, stride, width) in enumerate(zip(sizes, outs, strides, reach, strict=True)):
        known = isinstance(size, int) and out is not None
        # By the mode alone: "same" gives size * stride, "valid" also what the kernel reaches beyond that.
        beyond = (size - 1) * stride + width - out if known else width - stride
        if mode == "same":
            stated[i], stated[rank + i] = max(beyond, 0) // 2, -(-max(beyond, 0) // 2)
            extra.append(max(-beyond, 0))
        elif known:
            extra.append(stated[i] + stated[rank + i] - beyond)
        elif mode == "valid":
            extra.append(max(-beyond, 0))
        else:
            # Several sizes are possible: the largest, and of it what is wanted.
            cut = stating
            extra.append(stride - 1 if stating else 0)
    if min(extra) < 0:
        call.fail(f"its result is declared {outs}, which its pads do not give")
    result = call.emit("ConvTranspose", value, weight, **attrs, pads=stated, output_padding=extra)
    if not cut:
        return result
    spatial = call.ints(list(range(2, 2 + rank)))
    ends = call.emit("Gather", call.sizes(call.args[2]), spatial, axis=0)
    return call.emit("Slice", result, call.ints([0] * rank), ends, spatial)


def _result_sizes(call: Call, rank: int) -> list[int | None]:
    """The spatial sizes that the third operand states, or else the file; None where they are computed."""
    stated = call.has(2) and isinstance(call.args[2], tuple)
    given: Any = call.args[2] if stated else getattr(call.declared, "shape", None)
    found: list[int | None] = []
    for item in given[-rank:] if given else [None] * rank:
        size = item.const if isinstance(item, Value) else item
        found.append(int(size) if size is not None and int(size) >= 0 else None)
    return found
