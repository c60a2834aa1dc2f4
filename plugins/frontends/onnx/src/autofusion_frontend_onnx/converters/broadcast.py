"""Binary operators before operator set 7: broadcasting had to be asked for, and could begin at any axis."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_BINARY = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")


@converter(*_BINARY, before=7)
def binary(call: Call) -> list[Value]:
    """The second operand gets trailing axes of size 1, so that its own axes come to lie where ``axis`` says."""
    a, b = call.operand(0), call.operand(1)
    if call.attr("broadcast", 0) and "axis" in call.attrs:
        b = aligned(call, a, b, call.attr("axis"))
    return call.result(inputs=[a, b], attrs={})


def aligned(call: Call, a: Value, b: Value, axis: int) -> Value:
    """``b`` with as many axes behind its own as put its first axis at ``axis`` of ``a``."""
    behind = call.rank(a) - call.axis(axis, a) - call.rank(b)
    if behind < 0:
        call.fail(
            f"'{b.name}' of rank {call.rank(b)} does not fit '{a.name}' of rank {call.rank(a)} from axis {axis} on"
        )
    if behind == 0:
        return b
    return call.emit("Unsqueeze", b, call.ints(list(range(call.rank(b), call.rank(b) + behind)), "axes"))


@converter("PRelu", before=7)
def prelu(call: Call) -> list[Value]:
    """A slope of more than one element lies along the channels."""
    x, slope = call.operand(0), call.operand(1)
    one_element = slope.shape is not None and all(d == 1 for d in slope.shape)
    if not one_element and call.rank(slope) == 1 and call.rank(x) > 2:
        slope = aligned(call, x, slope, 1)
    return call.result(inputs=[x, slope], attrs={})


@converter("Gemm", before=7)
def gemm(call: Call) -> list[Value]:
    """The addend broadcasts by itself in newer versions."""
    return call.result(attrs=call.without("broadcast"))
