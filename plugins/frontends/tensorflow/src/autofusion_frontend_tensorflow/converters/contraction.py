"""Matrix products."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def product(call: Call, transpose_a: bool, transpose_b: bool) -> Value:
    """The product of operands 0 and 1, either with its last two axes exchanged."""
    a, b = call.operand(0), call.operand(1)
    for value in (a, b):
        if call.rank(value) < 2:
            call.fail(f"'{value.name}' must have at least two axes, found {value.type}")
    a = _exchanged(call, a) if transpose_a else a
    b = _exchanged(call, b) if transpose_b else b
    return call.emit("MatMul", a, b)


def _exchanged(call: Call, value: Value) -> Value:
    rank = call.rank(value)
    return call.transpose(value, [*range(rank - 2), rank - 1, rank - 2])


@converter("MatMul", "SparseMatMul")
def matmul(call: Call) -> Value:
    """Two matrices."""
    return product(call, bool(call.attr("transpose_a", False)), bool(call.attr("transpose_b", False)))


@converter("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(call: Call) -> Value:
    """Stacks of matrices, real ones: then the adjoint is the transpose."""
    if call.dtype(call.operand(0)).kind == "c":
        call.fail("products of complex matrices are not supported")
    out = call.attr("Tout")
    result = product(call, bool(call.attr("adj_x", False)), bool(call.attr("adj_y", False)))
    return call.cast(result, out.dtype) if out is not None and out.dtype is not None else result


@converter("Einsum")
def einsum(call: Call) -> Value:
    """The equation is written alike."""
    return call.emit("Einsum", *call.inputs, equation=str(call.attr("equation")).replace(" ", ""))
