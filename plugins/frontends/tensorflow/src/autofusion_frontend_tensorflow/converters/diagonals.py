"""Diagonals of matrices: taken, set, and made into matrices. Of bands of diagonals only one is read."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def _which(call: Call, index: int) -> int:
    """The number of the diagonal: 0 for the main one, above it positive."""
    if index >= len(call.inputs):
        return 0
    numbers = call.known_ints(index, "diagonals")
    if len(set(numbers)) != 1:
        call.fail(f"it is about the diagonals {numbers}, and only one is supported")
    return numbers[0]


def _range(call: Call, size: Value) -> Value:
    return call.emit("Range", call.ints(0), call.reshape(size, []), call.ints(1))


def _placed(call: Call, diagonal: Value, rows: Value, columns: Value, k: int, other: Value) -> Value:
    """``other``, but for diagonal ``k`` of a matrix [rows, columns]."""
    row, column = call.unsqueeze(_range(call, rows), 1), call.unsqueeze(_range(call, columns), 0)
    there = call.emit("Equal", call.emit("Sub", column, row), call.ints(k))
    # Element i of the diagonal lies in row i above the main one, in column i below: the rest of that axis is no matter.
    rank = call.rank(diagonal)
    missing = call.emit("Sub", rows if k >= 0 else columns, call.dim(diagonal, -1))
    before = call.ints([0] * (2 * rank - 1))
    padded = call.emit("Pad", diagonal, call.emit("Concat", before, missing, axis=0))
    return call.emit("Where", there, call.unsqueeze(padded, rank if k >= 0 else rank - 1), other)


@converter("MatrixDiag", "BatchMatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_of_diagonal(call: Call) -> Value:
    """Operands: diagonal; of later versions which it is, numbers of rows and columns, and what is elsewhere."""
    x, k = call.operand(0), _which(call, 1)
    given = [call.known_int(i, "size") if i < len(call.inputs) else -1 for i in (2, 3)]
    least = (abs(k), abs(k)) if given == [-1, -1] else (max(-k, 0), max(k, 0))
    rows, columns = (
        call.ints([size]) if size >= 0 else call.emit("Add", call.dim(x, -1), call.ints([more]))
        for size, more in zip(given, least, strict=True)
    )
    other = call.operand(4) if len(call.inputs) > 4 else call.like(0, x)
    return _placed(call, x, rows, columns, k, other)


@converter("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def diagonal_of_matrix(call: Call) -> Value:
    """Operands: matrix; of later versions which diagonal."""
    return _taken(call, call.operand(0), _which(call, 1))


def _taken(call: Call, x: Value, k: int) -> Value:
    rank = call.rank(x)
    rows, columns = call.dim(x, -2), call.dim(x, -1)
    down, right = max(-k, 0), max(k, 0)
    count = call.emit("Min", call.emit("Sub", rows, call.ints([down])), call.emit("Sub", columns, call.ints([right])))
    at = _range(call, count)
    place = call.emit(
        "Add", call.emit("Mul", call.emit("Add", at, call.ints(down)), columns), call.emit("Add", at, call.ints(right))
    )
    shape = call.emit("Mul", rows, columns)
    if rank > 2:
        shape = call.emit("Concat", call.emit("Shape", x, end=rank - 2), shape, axis=0)
    return call.emit("Gather", call.reshape(x, shape), place, axis=rank - 2)


@converter("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def set_diagonal(call: Call) -> Value:
    """Operands: matrix, diagonal; of later versions which."""
    x = call.operand(0)
    return _placed(call, call.operand(1), call.dim(x, -2), call.dim(x, -1), _which(call, 2), x)


@converter("Diag")
def diagonal_tensor(call: Call) -> Value:
    """A tensor with the axes of the operand twice, which is zero off the diagonal."""
    x = call.operand(0)
    shape, flat = call.shape(x), call.reshape(x, [-1])
    size = call.dim(flat, 0)
    matrix = _placed(call, flat, size, size, 0, call.like(0, x))
    return call.reshape(matrix, call.emit("Concat", shape, shape, axis=0))


@converter("DiagPart")
def diagonal_part(call: Call) -> Value:
    """The diagonal of a tensor with some axes twice."""
    x = call.operand(0)
    shape = call.emit("Slice", call.shape(x), call.ints([0]), call.ints([call.rank(x) // 2]))
    size = call.emit("ReduceProd", shape, keepdims=1)
    return call.reshape(_taken(call, call.reshape(x, call.emit("Concat", size, size, axis=0)), 0), shape)
