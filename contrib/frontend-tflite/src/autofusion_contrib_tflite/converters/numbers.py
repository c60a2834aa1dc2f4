"""Operators on numbers: element by element, along axes, and products."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_contrib_tflite.call import Call
from autofusion_contrib_tflite.registry import converter
from autofusion_contrib_tflite.schema import DTYPES

_SAME = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "ELU": "Elu", "EQUAL": "Equal", "EXP": "Exp", "FLOOR": "Floor",
    "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual", "HARD_SWISH": "HardSwish", "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual", "LOG": "Log", "LOGICAL_AND": "And", "LOGICAL_NOT": "Not", "LOGICAL_OR": "Or",
    "LOGISTIC": "Sigmoid", "MAXIMUM": "Max", "MINIMUM": "Min", "NEG": "Neg", "POW": "Pow", "PRELU": "PRelu",
    "RELU": "Relu", "ROUND": "Round", "SELECT": "Where", "SELECT_V2": "Where", "SIN": "Sin", "SQRT": "Sqrt",
    "TANH": "Tanh",
}  # fmt: skip
"""Operators that the IR has with the same operands."""
_BINARY = {"ADD": "Add", "DIV": "Div", "MUL": "Mul", "SUB": "Sub"}
_REDUCTIONS = {
    "MEAN": "ReduceMean",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
    "SUM": "ReduceSum",
}


@converter(*_SAME)
def _same(call: Call) -> Value:
    return call.emit(_SAME[call.op], *call.operands)


@converter(*_BINARY)
def _binary(call: Call) -> Value:
    options = call.options(f"{_BINARY[call.op]}Options")
    return call.activated(call.emit(_BINARY[call.op], *call.operands), options.FusedActivationFunction())


@converter("GELU")
def _gelu(call: Call) -> Value:
    return call.emit(
        "Gelu", call.operand(0), approximate="tanh" if call.options("GeluOptions").Approximate() else "none"
    )


@converter("LEAKY_RELU")
def _leaky_relu(call: Call) -> Value:
    return call.emit("LeakyRelu", call.operand(0), alpha=float(call.options("LeakyReluOptions").Alpha()))


@converter("NOT_EQUAL")
def _not_equal(call: Call) -> Value:
    return call.emit("Not", call.emit("Equal", *call.operands))


@converter("RELU6")
def _relu6(call: Call) -> Value:
    return call.clipped(call.operand(0), 0, 6)


@converter("RELU_N1_TO_1")
def _relu_n1_to_1(call: Call) -> Value:
    return call.clipped(call.operand(0), -1, 1)


@converter("RSQRT")
def _rsqrt(call: Call) -> Value:
    return call.emit("Reciprocal", call.emit("Sqrt", call.operand(0)))


@converter("SQUARE")
def _square(call: Call) -> Value:
    return call.emit("Mul", call.operand(0), call.operand(0))


@converter("SQUARED_DIFFERENCE")
def _squared_difference(call: Call) -> Value:
    difference = call.emit("Sub", *call.operands)
    return call.emit("Mul", difference, difference)


@converter("CAST")
def _cast(call: Call) -> Value:
    return call.cast(call.operand(0), call.results[0])


@converter("DEQUANTIZE")
def _dequantize(call: Call) -> Value:
    if call.operand(0).dtype != np.float16:
        call.fail("only half-precision weights are read, not quantised ones")
    return _cast(call)


# ---- along axes -----------------------------------------------------------------------------------------------------


@converter(*_REDUCTIONS)
def _reduce(call: Call) -> Value:
    keep = int(call.options("ReducerOptions").KeepDims())
    axes = call.ints(call.known_ints(1, "axes"))
    return call.emit(_REDUCTIONS[call.op], call.operand(0), axes, keepdims=keep)


@converter("ARG_MAX", "ARG_MIN")
def _arg(call: Call) -> Value:
    op = "ArgMax" if call.op == "ARG_MAX" else "ArgMin"
    y = call.emit(op, call.operand(0), axis=call.known_int(1, "axis"), keepdims=0)
    return call.cast(y, DTYPES[call.options(f"{op}Options").OutputType()])


@converter("SOFTMAX")
def _softmax(call: Call) -> Value:
    beta = float(call.options("SoftmaxOptions").Beta())
    x = call.operand(0) if beta == 1.0 else call.emit("Mul", call.operand(0), call.like(beta, call.operand(0)))
    return call.emit("Softmax", x, axis=-1)


@converter("LOG_SOFTMAX")
def _log_softmax(call: Call) -> Value:
    return call.emit("LogSoftmax", call.operand(0), axis=-1)


# ---- products -------------------------------------------------------------------------------------------------------


@converter("FULLY_CONNECTED")
def _fully_connected(call: Call) -> Value:
    options = call.options("FullyConnectedOptions")
    x, weights = call.operand(0), call.transpose(call.operand(1), (1, 0))
    if not options.KeepNumDims():
        assert weights.shape is not None
        x = call.emit("Reshape", x, call.ints([-1, weights.shape[0]]))
    y = call.emit("MatMul", x, weights)
    y = call.emit("Add", y, call.operand(2)) if call.has(2) else y
    return call.activated(y, options.FusedActivationFunction())


@converter("BATCH_MATMUL")
def _batch_matmul(call: Call) -> Value:
    options = call.options("BatchMatMulOptions")
    operands = []
    for index, turned in ((0, options.AdjX()), (1, options.AdjY())):
        rank = call.rank(call.operand(index))
        perm = [*range(rank - 2), rank - 1, rank - 2]
        operands.append(call.transpose(call.operand(index), perm) if turned else call.operand(index))
    return call.emit("MatMul", *operands)
