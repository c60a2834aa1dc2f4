"""Determinants, inverses and triangular factors of stacks of square matrices, as loops over their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autofusion.ir.graph import Value
from autofusion.ir.types import TensorType
from autofusion_frontend_tensorflow.bodies import BodyBuilder
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


@converter("MatrixDeterminant")
def determinant(call: Call) -> Value:
    """The IR's operator."""
    return call.emit("Det", call.operand(0))


@converter("MatrixInverse")
def inverse(call: Call) -> Value:
    """By elimination with the greatest pivot of each column; of the adjoint, if the attribute says so."""
    x = _adjoint(call, call.operand(0))
    return _solved(call, x, _identity(call, x))


@converter("MatrixSolve")
def solve(call: Call) -> Value:
    """Operands: matrices, right-hand sides."""
    return _solved(call, _adjoint(call, call.operand(0)), call.operand(1))


def _adjoint(call: Call, x: Value) -> Value:
    return _turned(call, x) if call.attr("adjoint", False) else x


def _turned(call: Call, x: Value) -> Value:
    rank = call.rank(x)
    return call.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _places(call: Call, count: Value) -> Value:
    """0, 1, ..., count - 1."""
    return call.emit("Range", call.ints(0), call.squeeze(count, 0), call.ints(1))


def _identity(call: Call, x: Value) -> Value:
    places = _places(call, call.dim(x, -1))
    eye = call.cast(call.emit("Equal", call.unsqueeze(places, 1), places), call.dtype(x))
    return call.emit("Expand", eye, call.emit("Shape", x))


def _each_column(
    call: Call, count: Value, carried: Sequence[Value], step: Callable[[Call, Value, Sequence[Value]], Sequence[Value]]
) -> Sequence[Value]:
    """The values after ``step`` (given what it emits by, the number of the column, and the values) for each column."""
    builder = BodyBuilder(call, "column")
    column = builder.input("column", TensorType(np.dtype(np.int64), ()))
    going = builder.input("going", TensorType(np.dtype(np.bool_), ()))
    values = [builder.input(f"carried.{i}", v.type) for i, v in enumerate(carried)]
    inner = call.within(builder.graph)
    made = step(inner, column, values)
    body = builder.finish([inner.emit("Identity", going), *made])
    node = call.node(
        "Loop", [call.squeeze(count, 0), None, *carried], {"body": body, "captures": 0}, outputs=len(carried)
    )
    return node.outputs


def _solved(call: Call, x: Value, right: Value) -> Value:
    """``right`` times the inverse of ``x``: rows of both are combined until ``x`` is the identity (Gauss-Jordan)."""
    rank, width = call.rank(x), call.dim(x, -1)
    both = call.emit("Concat", x, right, axis=rank - 1)

    def step(inner: Call, column: Value, values: Sequence[Value]) -> Sequence[Value]:
        (rows,) = values
        places = _places(inner, inner.dim(rows, rank - 2))
        own = inner.emit("Gather", rows, column, axis=rank - 1)
        size = inner.emit("Abs", own)
        done = inner.emit("Less", places, column)
        best = inner.emit("ArgMax", inner.emit("Where", done, inner.like(-1, size), size), axis=rank - 2, keepdims=1)
        # The best row and the row in turn change places.
        is_best = inner.unsqueeze(inner.emit("Equal", places, best), rank - 1)
        is_turn = inner.unsqueeze(inner.emit("Equal", places, column), 1)
        zero = inner.like(0, rows)
        axes = inner.ints([rank - 2])
        pivot = inner.emit("ReduceSum", inner.emit("Where", is_best, rows, zero), axes, keepdims=1)
        turn = inner.emit("ReduceSum", inner.emit("Where", is_turn, rows, zero), axes, keepdims=1)
        rows = inner.emit("Where", is_turn, pivot, inner.emit("Where", is_best, turn, rows))
        head = inner.emit("Gather", pivot, inner.emit("Reshape", column, inner.ints([1])), axis=rank - 1)
        pivot = inner.emit("Div", pivot, head)
        factor = inner.emit("Gather", rows, inner.emit("Reshape", column, inner.ints([1])), axis=rank - 1)
        rest = inner.emit("Sub", rows, inner.emit("Mul", factor, pivot))
        return [inner.emit("Where", is_turn, pivot, rest)]

    (rows,) = _each_column(call, width, [both], step)
    end, axis = call.ints([np.iinfo(np.int64).max]), call.ints([rank - 1])
    return call.emit("Slice", rows, width, end, axis)


@converter("Cholesky")
def cholesky(call: Call) -> Value:
    """The lower triangle whose product with its transpose is the matrix, of which only the lower triangle is read."""
    x = call.operand(0)
    rank = call.rank(x)

    def step(inner: Call, column: Value, values: Sequence[Value]) -> Sequence[Value]:
        rest, factor = values
        places, at = _places(inner, inner.dim(rest, rank - 1)), inner.emit("Reshape", column, inner.ints([1]))
        own = inner.emit("Gather", rest, at, axis=rank - 1)
        head = inner.emit("Gather", own, at, axis=rank - 2)
        below = inner.unsqueeze(inner.emit("GreaterOrEqual", places, column), 1)
        made = inner.emit("Where", below, inner.emit("Div", own, inner.emit("Sqrt", head)), inner.like(0, rest))
        rest = inner.emit("Sub", rest, inner.emit("MatMul", made, _turned(inner, made)))
        return [rest, inner.emit("Where", inner.emit("Equal", places, column), made, factor)]

    zeros = call.emit("ConstantOfShape", call.shape(x), value=np.zeros(1, call.dtype(x)))
    return _each_column(call, call.dim(x, -1), [x, zeros], step)[1]


@converter("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def triangular_solve(call: Call) -> Value:
    """Operands: triangular matrices, of which the other triangle is not read, and right-hand sides."""
    x, lower = call.operand(0), bool(call.attr("lower", True))
    places = _places(call, call.dim(x, -1))
    op = "GreaterOrEqual" if lower else "LessOrEqual"
    inside = call.emit(op, call.unsqueeze(places, 1), places)
    x = call.emit("Where", inside, x, call.like(0, x))
    return _solved(call, _adjoint(call, x), call.operand(1))
