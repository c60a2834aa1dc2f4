"""Matrix products."""

from __future__ import annotations

import numpy as np

from autofusion.frontends import ShapeError
from autofusion.ir.graph import Value
from autofusion.ir.infer import merge_types
from autofusion.ir.types import TensorType
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def product(call: Call, a: Value, b: Value, transpose_a: bool, transpose_b: bool) -> Value:
    """The product of ``a`` and ``b``, either with its last two axes exchanged. Their rank need not be known."""
    for value in (a, b):
        if value.shape is not None and len(value.shape) < 2:
            call.fail(f"'{value.name}' must have at least two axes, found {value.type}")
    a = _exchanged(call, a) if transpose_a else a
    b = _exchanged(call, b) if transpose_b else b
    return call.emit("MatMul", a, b)


def _exchanged(call: Call, value: Value) -> Value:
    if value.shape is not None:
        rank = len(value.shape)
        return call.transpose(value, [*range(rank - 2), rank - 1, rank - 2])
    # Without a rank there is not a permutation, but a stack of matrices has always three axes once the first are one.
    first, rows, columns = (call.emit("Shape", value, **part) for part in _PARTS)
    stack = call.reshape(value, call.emit("Concat", call.ints([-1]), rows, columns, axis=0))
    return call.reshape(call.transpose(stack, [0, 2, 1]), call.emit("Concat", first, columns, rows, axis=0))


_PARTS = ({"end": -2}, {"start": -2, "end": -1}, {"start": -1})


def matrices(call: Call) -> tuple[Value, Value]:
    """Operands 0 and 1, which are matrices by definition: a rank that is not known is 2."""
    for index in (0, 1):
        value = call.operand(index)
        try:
            value.type = merge_types(value.type, TensorType(call.dtype(value), (None, None)))
        except ShapeError:
            call.fail(f"'{value.name}' must be a matrix, found {value.type}")
    return call.operand(0), call.operand(1)


@converter("MatMul")
def matmul(call: Call) -> Value:
    """Two matrices."""
    return product(call, *matrices(call), bool(call.attr("transpose_a", False)), bool(call.attr("transpose_b", False)))


@converter("SparseMatMul")
def sparse_matmul(call: Call) -> Value:
    """Two matrices of which many elements are zero; the operands may be narrower than the result, 32-bit numbers."""
    a, b = (call.cast(value, np.float32) for value in matrices(call))
    return product(call, a, b, bool(call.attr("transpose_a", False)), bool(call.attr("transpose_b", False)))


@converter("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(call: Call) -> Value:
    """Stacks of matrices, real ones: then the adjoint is the transpose.

    Version 3 states the type of the result (``Tout``): operands of 8 bits are multiplied and added up in it.
    """
    a, b = call.operand(0), call.operand(1)
    if call.dtype(a).kind == "c":
        call.fail("products of complex matrices are not supported")
    to = call.dtype_attr("Tout", call.dtype(a))
    return product(
        call, call.cast(a, to), call.cast(b, to), bool(call.attr("adj_x", False)), bool(call.attr("adj_y", False))
    )


@converter("Einsum")
def einsum(call: Call) -> Value:
    """The equation is written alike."""
    return call.emit("Einsum", *call.inputs, equation=str(call.attr("equation")).replace(" ", ""))
