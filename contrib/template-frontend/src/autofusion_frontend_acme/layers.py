"""One converter for each type of layer: the operators of the IR that say the same."""

from __future__ import annotations

from autofusion.frontends import Call, ConverterTable
from autofusion.ir.graph import Value

TABLE = ConverterTable("acme")


@TABLE.converter("dense")
def dense(call: Call) -> Value:
    """input * weight + bias."""
    return call.emit("Add", call.emit("MatMul", call.operand(0), call.operand(1)), call.operand(2))


@TABLE.converter("relu")
def relu(call: Call) -> Value:
    """max(input, 0)."""
    return call.emit("Relu", call.operand(0))


@TABLE.converter("softmax")
def softmax(call: Call) -> Value:
    """Softmax over the last axis."""
    return call.emit("Softmax", call.operand(0), axis=-1)
