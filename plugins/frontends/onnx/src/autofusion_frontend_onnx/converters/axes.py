"""Axes, shapes and lengths that older operators take as attributes, and newer ones as operands."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_REDUCTIONS = tuple(
    f"Reduce{n}" for n in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)


@converter(*_REDUCTIONS, before=18)
@converter("ReduceSum", before=13)
def reduction(call: Call) -> list[Value]:
    """An empty list of axes means all of them, like an absent one."""
    axes = call.attr("axes")
    return call.result(inputs=[call.operand(0), call.ints(axes, "axes") if axes else None], attrs=call.without("axes"))


@converter("Squeeze", "Unsqueeze", before=13)
def squeeze(call: Call) -> list[Value]:
    """Axes become an operand; a Squeeze without them drops every axis of size 1."""
    axes = call.attr("axes")
    return call.result(
        inputs=[call.operand(0), None if axes is None else call.ints(axes, "axes")], attrs=call.without("axes")
    )


@converter("Reshape", before=5)
def reshape(call: Call) -> list[Value]:
    """The shape becomes an operand; without one the tensor stays as it is."""
    shape = call.attr("shape")
    if shape is None:
        return call.result("Identity", [call.operand(0)], {})
    return call.result(inputs=[call.operand(0), call.ints(shape, "shape")], attrs={})


@converter("Split", before=18)
def split(call: Call) -> list[Value]:
    """Lengths become an operand; equal parts are asked for by their number."""
    lengths = call.attr("split")
    operand = call.ints(lengths, "split") if lengths else call.optional(1)
    attrs = {"axis": call.attr("axis", 0)}
    if operand is None:
        attrs["num_outputs"] = len(call.proto.output)
    return _all_results(call, "Split", [call.operand(0), operand], attrs)


def _all_results(call: Call, op: str, inputs: list[Value | None], attrs: dict[str, int]) -> list[Value]:
    # The number of parts is the number of results, unnamed ones at the end included.
    call.outputs = list(call.proto.output)
    return call.result(op, inputs, attrs)


@converter("Split", since=18)
def split_equally(call: Call) -> list[Value]:
    """Unnamed parts at the end count."""
    return _all_results(call, "Split", call.inputs, call.attrs)


@converter("Slice", before=10)
def slice_(call: Call) -> list[Value]:
    """Bounds become operands; without axes they are those of the first axes."""
    starts, ends = call.attr("starts"), call.attr("ends")
    if len(starts) != len(ends):
        call.fail(f"it has {len(starts)} starts and {len(ends)} ends; expected as many of each")
    axes = call.attr("axes") or list(range(len(starts)))
    operands = [call.ints(starts, "starts"), call.ints(ends, "ends"), call.ints(axes, "axes")]
    return call.result(inputs=[call.operand(0), *operands], attrs={})


@converter("Pad", before=11)
def pad(call: Call) -> list[Value]:
    """Widths and the value become operands; the first version calls the widths ``paddings``."""
    widths = call.attr("pads", call.attr("paddings"))
    x, mode, value = call.operand(0), call.attr("mode", "constant"), call.attr("value", 0.0)
    fill = call.like(value, x, "value") if mode == "constant" and value != 0 else None
    return call.result(inputs=[x, call.ints(widths, "pads"), fill], attrs={"mode": mode})


@converter("Tile", before=6)
def tile(call: Call) -> list[Value]:
    """One axis and its number of repetitions become a repetition for each axis."""
    x, tiles, axis = call.operand(0), call.operand(1), call.operand(2)
    one, index = call.ints([1]), call.ints([-1])
    ones = call.ints([1] * call.rank(x), "ones")
    counts = call.emit("Reshape", call.emit("Cast", tiles, to=one.dtype), index)
    where = call.emit("Reshape", call.emit("Cast", axis, to=one.dtype), index)
    return call.result(inputs=[x, call.emit("ScatterElements", ones, where, counts, axis=0)], attrs={})


@converter("TopK", before=10)
def top_k(call: Call) -> list[Value]:
    """The number of elements becomes an operand."""
    return call.result(
        inputs=[call.operand(0), call.ints([call.attr("k")], "k")], attrs={"axis": call.attr("axis", -1)}
    )


@converter("DFT", since=17, before=20)
def dft(call: Call) -> list[Value]:
    """The axis becomes an operand."""
    axis = call.ints(call.attr("axis", 1), "axis")
    return call.result(inputs=[call.operand(0), call.optional(1), axis], attrs=call.without("axis"))
