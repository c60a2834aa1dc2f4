"""Matrix products."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.converters.arithmetic import operands, widened
from autofusion_frontend_mindspore.converters.convolution import CHANNELS_LAST
from autofusion_frontend_mindspore.registry import converter

_FIRST_OF_THREE = -65530
"""How MindSpore writes that no axis was given."""


def swapped(call: Call, value: Value) -> Value:
    """The last two axes swapped."""
    rank = call.rank(value)
    return call.emit("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


@converter("MatMul")
def mat_mul(call: Call) -> Value:
    """Of two matrices, either of which may be transposed."""
    left, right = operands(call, call.result_dtype())
    a, b = (bool(call.argument(i, n, False)) for i, n in ((2, "transpose_a"), (3, "transpose_b")))
    if a or b:
        return call.emit("Gemm", left, right, transA=int(a), transB=int(b))
    return call.emit("MatMul", left, right)


@converter("BatchMatMul")
def batch_mat_mul(call: Call) -> Value:
    """Of stacks of matrices, either of which may be transposed."""
    left, right = operands(call, call.result_dtype())
    if call.argument(2, "transpose_a", False):
        left = swapped(call, left)
    if call.argument(3, "transpose_b", False):
        right = swapped(call, right)
    return call.emit("MatMul", left, right)


@converter("MatMulExt", "BatchMatMulExt", "Mm", "Mv", "Dot")
def mat_mul_ext(call: Call) -> Value:
    """Of any ranks, as numpy's matmul."""
    return call.emit("MatMul", *operands(call, call.result_dtype()))


@converter("Dense")
def dense(call: Call) -> Value:
    """x times the transposed weight, plus a bias that may be absent."""
    value, weight = widened(call, call.tensor(0), call.tensor(1))
    bias = call.cast(call.tensor(2), value.dtype) if call.has(2) else None
    if call.rank(value) == 2 and call.rank(weight) == 2:
        return call.emit("Gemm", value, weight, bias, transB=1)
    if call.rank(weight) == 2:
        weight = call.emit("Transpose", weight, perm=[1, 0])
    product = call.emit("MatMul", value, weight)
    return product if bias is None else call.emit("Add", product, bias)


@converter("BiasAdd")
def bias_add(call: Call) -> Value:
    """A number for each channel: of matrices the last axis, otherwise axis 1."""
    value, bias = call.tensor(0), call.tensor(1)
    rank = call.rank(value)
    last = call.argument(2, "format", call.attrs.get("data_format", "NCHW")) in CHANNELS_LAST
    if rank > 2 and not last:
        bias = call.emit("Reshape", bias, call.ints([-1] + [1] * (rank - 2)))
    return call.emit("Add", value, bias)


@converter("Addmm", "Addbmm", "Baddbmm", "Addmv")
def addmm(call: Call) -> Value:
    """beta * x + alpha * (a @ b); Addbmm also sums over the batch."""
    base, *factors = widened(call, *(call.tensor(i) for i in range(3)))
    product = call.emit("MatMul", *factors)
    if call.op == "Addbmm":
        product = call.emit("ReduceSum", product, call.ints([0]), keepdims=0)
    for index, which in ((3, "beta"), (4, "alpha")):
        factor = call.argument(index, which, 1)
        if factor == 1:
            continue
        if which == "beta":
            base = call.emit("Mul", base, call.like(factor, base))
        else:
            product = call.emit("Mul", product, call.like(factor, product))
    return call.emit("Add", base, product)


@converter("Einsum")
def einsum(call: Call) -> Value:
    """Any number of operands."""
    equation = str(call.attrs.get("equation", "")).replace(" ", "")
    if not equation:
        call.fail("it has no attribute 'equation'")
    return call.emit("Einsum", *widened(call, *call.tensors(0)), equation=equation)


@converter("Cross")
def cross(call: Call) -> Value:
    """(x, y, axis): the cross product along an axis of three elements, by default the first one that has three."""
    left, right = operands(call, call.result_dtype())
    axis = int(call.argument(2, "dim", _FIRST_OF_THREE))
    if axis == _FIRST_OF_THREE:
        axis = next((i for i, size in enumerate(left.shape or ()) if size == 3), -1)
    axis = call.axis(axis, left)
    if call.rank(right) != call.rank(left):
        call.fail(f"its operands have {call.rank(left)} and {call.rank(right)} axes, expected as many")
    if any(call.static_dim(v, axis) != 3 for v in (left, right)):
        call.fail(f"axis {axis} of its operands must have 3 elements")

    def turned(value: Value, amount: int) -> Value:
        return call.emit("Gather", value, call.ints([(i + amount) % 3 for i in range(3)]), axis=axis)

    first = call.emit("Mul", turned(left, 1), turned(right, 2))
    return call.emit("Sub", first, call.emit("Mul", turned(left, 2), turned(right, 1)))


@converter("Ger", "Outer")
def outer(call: Call) -> Value:
    """The outer product of two vectors."""
    left, right = operands(call, call.result_dtype())
    column = call.emit("Reshape", left, call.ints([-1, 1]))
    return call.emit("Mul", column, call.emit("Reshape", right, call.ints([1, -1])))
