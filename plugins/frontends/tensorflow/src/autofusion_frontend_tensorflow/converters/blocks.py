"""SpaceToBatch and BatchToSpace. Around a convolution they spell a dilated one, which is what they become."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.bodies import producer
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.converters.convolution import convolved
from autofusion_frontend_tensorflow.layout import Layout
from autofusion_frontend_tensorflow.registry import converter
from autofusion_frontend_tensorflow.source import Ref, SourceNode

_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_ROWS = ([1], [-3])
"""Where the axis of height is put in front of [length, channels]."""


@converter("SpaceToBatchND")
def space_to_batch(call: Call) -> Value:
    """Operands: value, block sizes, amounts of padding."""
    return _to_batch(call, call.known_ints(1, "block sizes"), call.operand(2))


@converter("SpaceToBatch")
def space_to_batch_2d(call: Call) -> Value:
    """Square blocks of an attribute."""
    return _to_batch(call, [int(call.attr("block_size", 2))] * 2, call.operand(1))


def _to_batch(call: Call, block: Sequence[int], amounts: Value) -> Value:
    """[N, H, W, ...] to [bh * bw * N, H / bh, W / bw, ...]: the position in the block is the slowest axis."""
    x, count = call.operand(0), len(block)
    rest = call.rank(x) - 1 - count
    amounts = call.as_ints(amounts)
    none = call.ints([[0, 0]])
    rows = [none, amounts, *([call.ints([[0, 0]] * rest)] if rest else [])]
    flat = call.emit("Reshape", call.transpose(call.emit("Concat", *rows, axis=0), [1, 0]), call.ints([-1]))
    if flat.const is None or flat.const.any():
        x = call.emit("Pad", x, flat)
    sizes = [call.emit("Div", call.dim(x, 1 + i), call.ints([b])) for i, b in enumerate(block)]
    inner = [part for size, b in zip(sizes, block, strict=True) for part in (size, call.ints([b]))]
    others = [call.dim(x, 1 + count + i) for i in range(rest)]
    split = call.reshape(x, call.emit("Concat", call.dim(x, 0), *inner, *others, axis=0))
    positions, places = [2 + 2 * i for i in range(count)], [1 + 2 * i for i in range(count)]
    moved = call.transpose(split, [*positions, 0, *places, *range(1 + 2 * count, 1 + 2 * count + rest)])
    return call.reshape(moved, call.emit("Concat", call.ints([-1]), *sizes, *others, axis=0))


@converter("BatchToSpaceND")
def batch_to_space(call: Call) -> Value:
    """Operands: value, block sizes, amounts to crop."""
    return _dilated(call) or _to_space(call, call.known_ints(1, "block sizes"), call.operand(2))


@converter("BatchToSpace")
def batch_to_space_2d(call: Call) -> Value:
    """Square blocks of an attribute."""
    return _to_space(call, [int(call.attr("block_size", 2))] * 2, call.operand(1))


def _to_space(call: Call, block: Sequence[int], crops: Value) -> Value:
    x, count = call.operand(0), len(block)
    rest = call.rank(x) - 1 - count
    sizes = [call.dim(x, 1 + i) for i in range(count)]
    others = [call.dim(x, 1 + count + i) for i in range(rest)]
    split = call.reshape(x, call.emit("Concat", call.ints(block), call.ints([-1]), *sizes, *others, axis=0))
    axes = [count, *(a for i in range(count) for a in (count + 1 + i, i)), *range(2 * count + 1, 2 * count + 1 + rest)]
    moved = call.transpose(split, axes)
    whole = [call.emit("Mul", size, call.ints([b])) for size, b in zip(sizes, block, strict=True)]
    value = call.reshape(moved, call.emit("Concat", call.ints([-1]), *whole, *others, axis=0))
    crops = call.as_ints(crops)
    if crops.const is not None and not crops.const.any():
        return value
    starts = call.emit("Reshape", call.slice(crops, 1, 0, 1), call.ints([-1]))
    ends = call.emit("Reshape", call.slice(crops, 1, 1, 2), call.ints([-1]))
    total = call.emit("Concat", *whole, axis=0) if count > 1 else whole[0]
    return call.emit("Slice", value, starts, call.emit("Sub", total, ends), call.ints(list(range(1, 1 + count))))


# ---- dilated convolutions -----------------------------------------------------------------------------------------


def _dilated(call: Call) -> Value | None:
    """SpaceToBatchND, a convolution with stride 1 and no padding, BatchToSpaceND: one dilated convolution.

    The padding before and the crop after both move where it starts and ends, so it is padded by their difference
    (cropped where that is negative). In one dimension, the convolution is between ExpandDims and Squeeze.
    """
    body, values = call.scope.body, call.scope.values

    def known(ref: Ref) -> list[int] | None:
        value = values.get(ref)
        return None if value is None or value.const is None else [int(x) for x in value.const.reshape(-1)]

    conv = producer(body, call.source.inputs[0])
    line = conv is not None and conv.op == "Squeeze" and conv.attr("squeeze_dims") in ([1], [-3])
    if line:
        conv = producer(body, conv.inputs[0])
    if conv is None or conv.op not in _CONVOLUTIONS or not _is_plain(conv):
        return None
    before = producer(body, conv.inputs[0])
    if line and before is not None:
        before = (
            producer(body, before.inputs[0]) if before.op == "ExpandDims" and known(before.inputs[1]) in _ROWS else None
        )
    if before is None or before.op != "SpaceToBatchND":
        return None
    block, amounts, again = known(before.inputs[1]), known(before.inputs[2]), known(call.source.inputs[1])
    crops = known(call.source.inputs[2])
    if block is None or amounts is None or crops is None or block != again or len(block) != 2 - line:
        return None
    pads = [a - c for a, c in zip(amounts, crops, strict=True)]
    x, weight = values[before.inputs[0]], values[conv.inputs[1]]
    if line:
        x, block, pads = call.unsqueeze(x, 1), [1, *block], [0, 0, *pads]
    begins, ends = pads[::2], pads[1::2]
    if any(p < 0 for p in pads):
        x = call.emit("Pad", x, call.ints([0, *(min(p, 0) for p in begins), 0, 0, *(min(p, 0) for p in ends), 0]))
        begins, ends = [max(p, 0) for p in begins], [max(p, 0) for p in ends]
    inner = Call(call.scope, conv, call.name, [x, weight])
    result = convolved(inner, Layout(True, 2), x, weight, dilations=block, pads=begins + ends)
    call.made.extend(inner.made)
    return call.squeeze(result, 1) if line else result


def _is_plain(conv: SourceNode) -> bool:
    ones = all(int(n) == 1 for name in ("strides", "dilations") for n in conv.attr(name, []))
    return ones and conv.attr("padding", "VALID") == "VALID" and conv.attr("data_format", "NHWC") == "NHWC"
