"""Operators of newer operator sets than the IR's, said in the IR's."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.definitions import written_out
from autofusion_frontend_onnx.registry import converter


@converter("Attention", since=24)
def attention(call: Call) -> Sequence[Value | None]:
    """Windows and padded caches are not in the IR's operator: with them, the definition is written out."""
    unbounded = all(call.attr(f"{side}_window_size", -1) < 0 for side in ("left", "right"))
    if call.optional(6) is not None or not unbounded:
        return written_out(call) or ()
    return call.result(inputs=call.inputs[:6], attrs=call.without("left_window_size", "right_window_size"))


@converter("Range", since=27)
def range_(call: Call) -> list[Value]:
    """Half-precision ranges may be counted in single precision."""
    start = call.operand(0)
    if (
        call.attr("stash_type", F32) != F32
        or start.dtype is None
        or start.dtype.itemsize != 2
        or start.dtype.kind in "iu"
    ):
        return call.result(attrs={})
    operands = [call.emit("Cast", call.operand(i), to=F32) for i in range(3)]
    return call.result("Cast", [call.emit("Range", *operands)], {"to": start.dtype})
