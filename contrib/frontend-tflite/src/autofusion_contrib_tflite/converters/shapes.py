"""Operators that move elements about: shapes, joining, cutting, padding."""

from __future__ import annotations

import numpy as np
import tflite

from autofusion.ir.graph import Value
from autofusion_contrib_tflite.call import Call
from autofusion_contrib_tflite.registry import converter
from autofusion_contrib_tflite.schema import DTYPES


@converter("RESHAPE")
def _reshape(call: Call) -> Value:
    if call.has(1):
        return call.emit("Reshape", call.operand(0), call.as_ints(call.operand(1)))
    options = call.options("ReshapeOptions")
    shape = [options.NewShape(i) for i in range(options.NewShapeLength())]
    return call.emit("Reshape", call.operand(0), call.ints(shape))


@converter("SQUEEZE")
def _squeeze(call: Call) -> Value:
    options = call.options("SqueezeOptions")
    axes = [options.SqueezeDims(i) for i in range(options.SqueezeDimsLength())]
    return call.emit("Squeeze", call.operand(0), call.ints(axes) if axes else None)


@converter("EXPAND_DIMS")
def _expand_dims(call: Call) -> Value:
    return call.emit("Unsqueeze", call.operand(0), call.ints(call.known_ints(1, "axis")))


@converter("TRANSPOSE")
def _transpose(call: Call) -> Value:
    return call.transpose(call.operand(0), call.known_ints(1, "permutation"))


@converter("CONCATENATION")
def _concatenation(call: Call) -> Value:
    options = call.options("ConcatenationOptions")
    return call.activated(call.emit("Concat", *call.operands, axis=options.Axis()), options.FusedActivationFunction())


@converter("PACK")
def _pack(call: Call) -> Value:
    axis = call.options("PackOptions").Axis()
    axis = call.axis(axis, call.rank(call.operand(0)) + 1)
    return call.emit("Concat", *(call.unsqueeze(x, axis) for x in call.operands), axis=axis)


@converter("UNPACK")
def _unpack(call: Call) -> list[Value]:
    options = call.options("UnpackOptions")
    return [call.squeeze(part, options.Axis()) for part in _parts(call, call.operand(0), options.Axis())]


@converter("SPLIT")
def _split(call: Call) -> list[Value]:
    return _parts(call, call.operand(1), call.known_int(0, "axis"))


def _parts(call: Call, value: Value, axis: int) -> list[Value]:
    count = len(call.results)
    if count == 1:
        return [value]
    return list(call.node("Split", [value], {"axis": axis, "num_outputs": count}, outputs=count).outputs)


@converter("STRIDED_SLICE")
def _strided_slice(call: Call) -> Value:
    options = call.options("StridedSliceOptions")
    if options.EllipsisMask() or options.NewAxisMask():
        call.fail("masks for an ellipsis or a new axis are not read")
    bounds = zip(*(call.known_ints(i, "bounds") for i in (1, 2, 3)), strict=True)
    starts, ends, steps, squeezed = [], [], [], []
    for axis, (begin, end, step) in enumerate(bounds):
        if options.ShrinkAxisMask() >> axis & 1:
            squeezed.append(axis)
            begin, end, step = begin, begin + 1 if begin != -1 else np.iinfo(np.int64).max, 1
        else:
            last = np.iinfo(np.int64).max if step > 0 else np.iinfo(np.int64).min
            begin = (0 if step > 0 else np.iinfo(np.int64).max) if options.BeginMask() >> axis & 1 else begin
            end = last if options.EndMask() >> axis & 1 else end
        starts.append(begin)
        ends.append(end)
        steps.append(step)
    parameters = (starts, ends, list(range(len(starts))), steps)
    y = call.emit("Slice", call.operand(0), *(call.ints(p) for p in parameters))
    return call.squeeze(y, *squeezed) if squeezed else y


@converter("SLICE")
def _slice(call: Call) -> Value:
    begin, size = (np.array(call.known_ints(i, what)) for i, what in ((1, "begin"), (2, "size")))
    ends = np.where(size < 0, np.iinfo(np.int64).max, begin + size)
    return call.emit("Slice", call.operand(0), call.ints(begin), call.ints(ends))


@converter("GATHER")
def _gather(call: Call) -> Value:
    options = call.options("GatherOptions")
    if options.BatchDims():
        call.fail("batch dims are not read")
    return call.emit("Gather", call.operand(0), call.operand(1), axis=options.Axis())


@converter("PAD", "PADV2")
def _pad(call: Call, mode: str = "constant") -> Value:
    pads = call.ints(call.known(1, "padding").T.reshape(-1))
    return call.emit("Pad", call.operand(0), pads, call.optional(2), mode=mode)


@converter("MIRROR_PAD")
def _mirror_pad(call: Call) -> Value:
    if call.options("MirrorPadOptions").Mode() != tflite.MirrorPadMode.REFLECT:
        call.fail("symmetric padding is not read")
    return _pad(call, "reflect")


@converter("SHAPE")
def _shape(call: Call) -> Value:
    return call.cast(call.shape(call.operand(0)), DTYPES[call.options("ShapeOptions").OutType()])


@converter("BROADCAST_TO")
def _broadcast_to(call: Call) -> Value:
    return call.emit("Expand", call.operand(0), call.as_ints(call.operand(1)))


@converter("TILE")
def _tile(call: Call) -> Value:
    return call.emit("Tile", call.operand(0), call.as_ints(call.operand(1)))
