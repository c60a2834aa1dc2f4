"""Scales and zero points: one element is one element, whether it comes as a scalar or as a vector."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter


@converter("QuantizeLinear", "DequantizeLinear")
def quantize(call: Call) -> list[Value]:
    """Models mix scalars and vectors of one element for the scale and its zero point; both become scalars."""
    operands = list(call.inputs)
    if not call.attr("block_size", 0):
        for index in (1, 2):
            value = call.optional(index)
            if value is not None and value.shape == (1,):
                operands[index] = scalar(call, value)
    return call.result(inputs=operands)


def scalar(call: Call, value: Value) -> Value:
    """A vector of one element as a scalar."""
    if value.const is not None:
        return call.const(value.const.reshape(()), name="scalar")
    return call.emit("Reshape", value, call.ints([]))
