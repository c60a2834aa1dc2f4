"""Pointwise operators whose bounds, types or modes were attributes."""

from __future__ import annotations

import numpy as np
import onnx

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter
from autofusion_frontend_onnx.tensors import element_type


@converter("Clip", before=11)
def clip(call: Call) -> list[Value]:
    """A bound that is not stated is no bound at all."""
    x = call.operand(0)
    bounds = [call.like(call.attr(name), x, name) if name in call.attrs else None for name in ("min", "max")]
    return call.result(inputs=[x, *bounds], attrs={})


@converter("Cast", before=6)
def cast(call: Call) -> list[Value]:
    """The element type was a name."""
    name = str(call.attr("to")).upper()
    if name not in onnx.TensorProto.DataType.keys():
        call.fail(f"unknown element type '{call.attr('to')}'")
    return call.result(attrs={"to": element_type(onnx.TensorProto.DataType.Value(name))})


@converter("Cast", since=24)
def cast_with_rounding(call: Call) -> list[Value]:
    """The rounding mode only has a meaning for the 8-bit exponent type, and 'up' is how the IR rounds to that."""
    return _cast(call, call.attr("to"))


@converter("CastLike")
def cast_like(call: Call) -> list[Value]:
    """A Cast, if the other operand's element type is known."""
    return _cast(call, call.operand(1).dtype)


def _cast(call: Call, to: np.dtype | None) -> list[Value]:
    mode = call.attr("round_mode", "up")
    if mode != "up" and to is not None and to.name == "float8_e8m0fnu":
        call.fail(f"rounding mode '{mode}' is not supported; expected 'up'")
    if to is None:
        return call.result(attrs=call.without("round_mode"))
    return call.result("Cast", [call.operand(0)], call.without("round_mode", to=to))


@converter("Dropout", before=12)
def dropout(call: Call) -> list[Value]:
    """Before operator set 7 an attribute said whether to train; from then on, until 12, it never does."""
    x = call.operand(0)
    training = call.version < 7 and not call.attr("is_test", 0)
    operands: list[Value | None] = [x]
    if training:
        operands += [call.const(call.attr("ratio", 0.5), np.float32, "ratio"), call.const(True, name="training")]
    if call.version >= 10 or not call.wants(1):
        return call.result("Dropout", operands, {})
    node = call.node("Dropout", operands, outputs=2)
    return [node.outputs[0], call.emit("CastLike", node.outputs[1], x)]  # the mask had the type of the data


@converter("Mod", since=28)
def mod(call: Call) -> list[Value]:
    """From operator set 28 on, floor division is allowed for floating point too: written out there."""
    x, y = call.operand(0), call.operand(1)
    if call.attr("fmod", 0) or x.dtype is None or x.dtype.kind in "iu":
        return call.result()
    remainder = call.emit("Mod", x, y, fmod=1)
    zero = call.like(0.0, x, "zero")
    away = call.emit("Less", call.emit("Mul", call.emit("Sign", remainder), call.emit("Sign", y)), zero)
    moved = call.emit("Where", away, call.emit("Add", remainder, y), remainder)
    # A remainder of zero takes the sign of the divisor.
    is_zero = call.emit("Equal", moved, zero)
    signed = call.emit("Mul", call.emit("Sign", y), call.emit("Abs", moved))
    return [call.emit("Where", is_zero, signed, moved)]
