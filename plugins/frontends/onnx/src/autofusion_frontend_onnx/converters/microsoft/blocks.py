"""Weights quantised in blocks: matrices of 2 to 8 bits, tables that rows are gathered from."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"
_UNSIGNED = {2: np.dtype(ml_dtypes.uint2), 4: np.dtype(ml_dtypes.uint4)}


def unpacked(data: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of ``bits`` bits from rows of bytes [..., bytes] of uint8, the lowest bits first; any rest is cut off."""
    if bits == 8:
        return data
    stream = np.unpackbits(data, axis=-1, bitorder="little")
    count = stream.shape[-1] // bits
    numbers = stream[..., : count * bits].reshape(*data.shape[:-1], count, bits)
    return (numbers << np.arange(bits, dtype=np.uint8)).sum(-1, dtype=np.uint8)


def constant(call: Call, index: int) -> np.ndarray:
    """Data of operand ``index``; the node stays as it is if it is not a constant."""
    data = call.operand(index).const
    if data is None:
        call.fail(f"operand {index} is not a constant")
    return data


def dequantised(
    call: Call, numbers: np.ndarray, bits: int, scales: Value, zeros: np.ndarray | None, size: int, axis: int
) -> Value:
    """(numbers - zeros) * scales in blocks of ``size`` along ``axis``; ``scales`` and ``zeros`` have a number for each.

    ``zeros`` may be real, or None for the middle of the range.
    """
    blocks = -(-numbers.shape[axis] // size)
    shape = [blocks if a == axis % numbers.ndim else n for a, n in enumerate(numbers.shape)]
    if zeros is None:
        zeros = np.full(shape, 1 << (bits - 1), np.uint8)
    if zeros.dtype.kind not in "iu":
        spread = np.repeat(zeros, size, axis=axis).take(range(numbers.shape[axis]), axis=axis)
        shifted = call.const(numbers.astype(spread.dtype) - spread, name="weights")
        wide = call.emit("Gather", scales, call.ints(list(np.arange(numbers.shape[axis]) // size)), axis=axis)
        return call.emit("Mul", shifted, wide)
    dtype = _UNSIGNED.get(bits, np.dtype(np.uint8))
    operands = call.const(numbers, dtype, "weights"), scales, call.const(zeros, dtype, "zero")
    return call.emit("DequantizeLinear", *operands, axis=axis, block_size=size)


@converter("MatMulNBits", domain=_MS)
def matmul_n_bits(call: Call) -> list[Value]:
    """a @ w with constant weights [N, blocks, bytes] of 2 to 8 bits, scaled in blocks along K."""
    a, bits, size = call.operand(0), call.attr("bits", 4), call.attr("block_size")
    k, n = call.attr("K"), call.attr("N")
    blocks = -(-k // size)
    if bits not in range(2, 9):
        call.fail(f"weights of {bits} bits are not supported; expected 2 to 8")
    if call.optional(4) is not None or call.attr("weight_prepacked", 0):
        call.fail("weights in another order (g_idx, weight_prepacked) are not supported")
    packed = constant(call, 1)
    if packed.size == 0:
        return [_omitted(call, a, n)]
    if packed.size != n * blocks * (size * bits // 8):
        call.fail(f"weights of {packed.size} bytes do not fit N = {n}, K = {k} and blocks of {size}")
    weights = unpacked(packed.reshape(n, -1), bits)[:, : blocks * size]
    zeros = None if call.optional(3) is None else constant(call, 3)
    if zeros is not None and zeros.dtype.kind in "iu":
        zeros = unpacked(zeros.reshape(n, -1).view(np.uint8), bits)[:, :blocks]
    elif zeros is not None:
        zeros = zeros.reshape(n, blocks)
    scales = call.emit("Reshape", call.operand(2), call.ints([n, blocks]))
    real = dequantised(call, weights, bits, scales, zeros, size, 1)
    if blocks * size != k:
        real = call.emit("Slice", real, call.ints([0]), call.ints([k]), call.ints([1]))
    y = call.emit("MatMul", a, call.emit("Transpose", real, perm=[1, 0]))
    return [y if call.optional(5) is None else call.emit("Add", y, call.optional(5))]


def _omitted(call: Call, a: Value, n: int) -> Value:
    """The result without any weights: the bias, or zeros, in the shape of the product."""
    rows = call.emit("Shape", a, end=-1)
    shape = call.emit("Concat", rows, call.ints([n]), axis=0)
    row = call.optional(5)
    return call.emit("Expand", call.const(np.zeros(1), call.dtype(a), "zero") if row is None else row, shape)


@converter("GatherBlockQuantized", domain=_MS)
def gather_block_quantized(call: Call) -> list[Value]:
    """Rows of a table that is quantised in blocks; an index that lies outside gives zeros.

    Rows, their scales and their zero points are gathered, so that the table stays as small as it is.
    """
    data, indices, scales = constant(call, 0), call.operand(1), constant(call, 2)
    rank, bits, size = data.ndim, call.attr("bits", 4), call.attr("block_size", 128)
    gather, along = call.attr("gather_axis", 0) % rank, call.attr("quantize_axis", 1) % rank
    if gather == along:
        call.fail("gathering along the axis of the blocks is not supported")
    if data.dtype.kind not in "iu" and not data.dtype.name.startswith(("int", "uint")):
        call.fail(f"a table of {data.dtype.name} is not supported; expected integers")
    zeros = None if call.optional(3) is None else constant(call, 3)
    whole = data.dtype == np.uint8
    length = data.shape[along] * (8 // bits if whole and along == rank - 1 else 1)
    if whole and bits < 8:
        data = unpacked(data, bits)
        zeros = None if zeros is None else unpacked(zeros, bits)[..., : scales.shape[-1]]
        dtype = _UNSIGNED.get(bits, np.dtype(np.uint8))
        data, zeros = data.astype(dtype), None if zeros is None else zeros.astype(dtype)
    if zeros is None:
        zeros = np.full(scales.shape, (1 << (bits - 1)) if whole else 0, np.int64).astype(data.dtype)
    count = data.shape[gather]
    found, inside = _within(call, indices, count)
    rows, row_scales, row_zeros = (
        call.emit("Gather", call.const(x, name=n), found, axis=gather)
        for x, n in ((data, "table"), (scales, "scales"), (zeros, "zeros"))
    )
    # The axes of the indices stand where the gathered one stood.
    moved = call.rank(indices) - 1
    axis = along + moved if along > gather else along
    if length % size:
        row_scales, row_zeros = (
            call.emit("Gather", x, call.ints(list(np.arange(length) // size)), axis=axis)
            for x in (row_scales, row_zeros)
        )
        size = 1
    y = call.emit("DequantizeLinear", rows, row_scales, row_zeros, axis=axis, block_size=size)
    after = list(range(moved + 1, moved + rank - gather))
    keep = call.emit("Unsqueeze", inside, call.ints(after)) if after else inside
    return [call.emit("Where", keep, y, call.like(0.0, y, "outside"))]


def _within(call: Call, indices: Value, count: int) -> tuple[Value, Value]:
    """The indices, zero where they lie outside, and whether they lie inside."""
    found = call.emit("Cast", indices, to=I64)
    inside = call.emit(
        "And", call.emit("Less", found, call.ints(count)), call.emit("GreaterOrEqual", found, call.ints(-count))
    )
    return call.emit("Where", inside, found, call.ints(0)), inside
