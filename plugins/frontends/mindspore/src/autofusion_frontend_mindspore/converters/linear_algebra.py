"""Inverses and systems of linear equations, by elimination in a loop over the columns."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import TensorType
from autofusion_frontend_mindspore.builder import Builder
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.converters.arithmetic import operands
from autofusion_frontend_mindspore.converters.contraction import swapped
from autofusion_frontend_mindspore.converters.pointwise import floating
from autofusion_frontend_mindspore.registry import converter

_F64 = np.dtype(np.float64)


def solved(call: Call, matrix: Value, right: Value) -> Value:
    """X of matrix @ X = right, for stacks [..., n, n] and [..., n, m]; infinite or NaN where a matrix is singular.

    By the elimination of Gauss and Jordan with the greatest pivot of a column (Golub and Van Loan, Matrix Computations,
    3.4), in double precision.
    """
    size, dtype = call.static_dim(matrix, call.rank(matrix) - 1), call.dtype(right)
    stacks = [v.shape[:-2] if v.shape is not None else None for v in (matrix, right)]
    if stacks[0] != stacks[1] or None in (stacks[0] or ()):
        matrix = _stacked(call, matrix, right)
        right = _stacked(call, right, matrix)
    rank = call.rank(right)
    width = call.static_dim(right, rank - 1)
    shape = call.emit("Shape", right)
    whole = call.emit("Concat", call.cast(matrix, _F64), call.cast(right, _F64), axis=rank - 1)
    flat = call.emit("Reshape", whole, call.ints([-1, size, size + width]))

    body = Builder(Graph(f"{call.name}/eliminate"), call.builder)
    column = body.input("column", TensorType(I64, ()))
    body.input("going", TensorType(BOOL, ()))
    rows = body.input("rows", TensorType(_F64, (None, size, size + width)))
    inner = Call(body, call.state, "Loop", call.name, [], {}, None)
    body.output(inner.const(True, BOOL))
    body.output(_eliminated(inner, rows, column, size))
    body.finish()
    captured = [value for value, _ in body.captures]
    attrs = {"body": body.graph, "captures": len(captured)}
    result = call.node("Loop", [call.const(size, I64), None, flat, *captured], attrs, outputs=1).output
    at = call.ints([2])
    result = call.emit("Slice", result, call.ints([size]), call.ints([size + width]), at)
    return call.cast(call.emit("Reshape", result, shape), dtype)


def _stacked(call: Call, value: Value, other: Value) -> Value:
    """``value`` in as many matrices as the stack of ``other`` has."""
    if call.rank(other) == 2:
        return value
    stack = call.emit("Shape", other, end=call.rank(other) - 2)
    return call.emit("Expand", value, call.emit("Concat", stack, call.ints([1, 1]), axis=0))


def _eliminated(call: Call, rows: Value, column: Value, size: int) -> Value:
    """One step on [batch, n, n + m]: the greatest element of the column is made one, those above and below it zero."""
    numbers = call.const(np.arange(size), I64)
    values = call.emit("Gather", rows, column, axis=2)
    left = call.emit("GreaterOrEqual", numbers, column)
    magnitude = call.emit("Where", left, call.emit("Abs", values), call.const(-1.0, _F64))
    pivot = call.emit("ArgMax", magnitude, axis=1, keepdims=1)
    best = call.emit("GatherND", rows, pivot, batch_dims=1)
    present = call.emit("Gather", rows, column, axis=1)
    is_column = call.emit("Unsqueeze", call.emit("Equal", numbers, column), call.ints([1]))
    is_pivot = call.emit("Unsqueeze", call.emit("Equal", numbers, pivot), call.ints([2]))
    one = call.ints([1])
    best, present = (call.emit("Unsqueeze", row, one) for row in (best, present))
    rows = call.emit("Where", is_column, best, call.emit("Where", is_pivot, present, rows))
    scaled = call.emit("Div", best, call.emit("Unsqueeze", call.emit("Gather", best, column, axis=2), call.ints([2])))
    factors = call.emit("Unsqueeze", call.emit("Gather", rows, column, axis=2), call.ints([2]))
    return call.emit("Where", is_column, scaled, call.emit("Sub", rows, call.emit("Mul", factors, scaled)))


def _square(call: Call, value: Value) -> tuple[Value, int]:
    rank = call.rank(value)
    if rank < 2 or call.static_dim(value, rank - 1) != call.static_dim(value, rank - 2):
        call.fail(f"expected square matrices, found {value.type}")
    return value, call.static_dim(value, rank - 1)


@converter("MatrixInverse", "MatrixInverseExt")
def inverse(call: Call) -> Value:
    """The inverse of each matrix, or (adjoint) of its transpose."""
    value, size = _square(call, floating(call, call.tensor(0)))
    if call.op == "MatrixInverse" and call.argument(1, "adjoint", False):
        value = swapped(call, value)
    eye = call.emit("Expand", call.const(np.eye(size), value.dtype), call.emit("Shape", value))
    return solved(call, value, eye)


@converter("MatrixDeterminant")
def determinant(call: Call) -> Value:
    """The determinant of each matrix."""
    return call.emit("Det", _square(call, floating(call, call.tensor(0)))[0])


@converter("MatrixSolve")
def matrix_solve(call: Call) -> Value:
    """(a, b): x of a @ x = b, or (adjoint) of the transpose of a."""
    matrix, right = operands(call)
    matrix, _ = _square(call, matrix)
    return solved(call, swapped(call, matrix) if call.argument(2, "adjoint", False) else matrix, right)


@converter("TriangularSolve")
def triangular_solve(call: Call) -> tuple[Value, Value]:
    """(b, a, upper, transpose, unit diagonal) -> (x of a @ x = b, a). Of the matrix one triangle is read."""
    right, matrix = operands(call)
    upper, transposed, unit = (
        bool(call.argument(i, n, d)) for i, n, d in ((2, "upper", True), (3, "transpose", False), (4, "unit", False))
    )
    return solved(call, _triangle(call, matrix, upper, transposed, unit), right), matrix


@converter("SolveTriangular")
def solve_triangular(call: Call) -> Value:
    """(a, b, transposition (0 none, 1 and 2 transposed), lower, unit diagonal): x of a @ x = b; b may be a vector."""
    matrix, right = operands(call)
    given = call.argument(2, "trans", 0)
    if given not in (0, 1, 2, "N", "T", "C"):
        call.fail(f"unknown transposition {given!r}")
    lower, unit = (bool(call.argument(i, n, False)) for i, n in ((3, "lower"), (4, "unit_diagonal")))
    matrix = _triangle(call, matrix, not lower, given not in (0, "N"), unit)
    if call.rank(right) == call.rank(matrix) - 1:
        column = call.ints([call.rank(right)])
        return call.emit("Squeeze", solved(call, matrix, call.emit("Unsqueeze", right, column)), column)
    return solved(call, matrix, right)


def _triangle(call: Call, matrix: Value, upper: bool, transposed: bool, unit: bool) -> Value:
    matrix, size = _square(call, matrix)
    matrix = call.emit("Trilu", matrix, call.const(0, I64), upper=int(upper))
    if unit:
        matrix = call.emit("Where", call.const(np.eye(size), BOOL), call.like(1, matrix), matrix)
    return swapped(call, matrix) if transposed else matrix
