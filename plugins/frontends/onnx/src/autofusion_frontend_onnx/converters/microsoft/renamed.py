"""Operators that the default domain has under the same or another name."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"


@converter("GatherND", "Trilu", domain=_MS)
def same(call: Call) -> list[Value]:
    """The same operator."""
    return call.result(call.op)


@converter("Pad", domain=_MS)
def pad(call: Call) -> list[Value]:
    """As Pad of operator set 11; the widths may come as a row."""
    widths = call.emit("Reshape", call.operand(1), call.ints([-1]))
    value = call.optional(2)
    if value is not None:
        value = call.emit("Reshape", value, call.ints([]))
    return call.result("Pad", [call.operand(0), widths, value], {"mode": call.attr("mode", "constant")})


@converter("ExpandDims", domain=_MS)
def expand_dims(call: Call) -> list[Value]:
    """Unsqueeze of one axis."""
    axis = call.emit("Reshape", call.emit("Cast", call.operand(1), to=I64), call.ints([1]))
    return call.result("Unsqueeze", [call.operand(0), axis], {})


@converter("RotaryEmbedding", domain=_MS)
def rotary_embedding(call: Call) -> list[Value]:
    """The operands come in another order, and one position may stand for the first of a row of positions."""
    x, positions = call.operand(0), call.operand(1)
    if call.attr("scale", 1.0) != 1.0 or call.attr("is_packed_batching", 0):
        call.fail("a scale, or packed batches, are not supported")
    if call.rank(positions) == 1:
        axis = 1 if call.rank(x) == 3 else 2
        steps = call.emit("Range", call.ints(0), call.emit("Squeeze", call.dim(x, axis)), call.ints(1))
        row = call.emit("Add", positions, steps)
        shape = call.emit("Concat", call.dim(x, 0), call.dim(x, axis), axis=0)
        positions = call.emit("Expand", call.emit("Unsqueeze", row, call.ints([0])), shape)
    attrs = {k: v for k, v in call.attrs.items() if k in ("interleaved", "num_heads", "rotary_embedding_dim")}
    if not attrs.get("num_heads") and call.rank(x) == 3:
        attrs["num_heads"] = _heads(call, x)
    return call.result("RotaryEmbedding", [x, call.operand(2), call.operand(3), positions], attrs)


def _heads(call: Call, x: Value) -> int:
    cache = call.operand(2).shape
    if x.shape is None or cache is None or not isinstance(x.shape[-1], int) or not isinstance(cache[-1], int):
        call.fail("the number of heads is neither stated nor known from the shapes")
    return int(x.shape[-1] // (2 * cache[-1]))


@converter("ComplexMul", "ComplexMulConj", domain=_MS)
def complex_mul(call: Call) -> list[Value]:
    """Products of numbers whose real and imaginary parts lie along the last axis."""
    parts = [call.node("Split", [call.operand(i)], {"axis": -1, "num_outputs": 2}, outputs=2).outputs for i in (0, 1)]
    (a, b), (c, d) = parts
    if call.op == "ComplexMulConj":
        d = call.emit("Neg", d)
    real = call.emit("Sub", call.emit("Mul", a, c), call.emit("Mul", b, d))
    imaginary = call.emit("Add", call.emit("Mul", a, d), call.emit("Mul", b, c))
    return call.result("Concat", [real, imaginary], {"axis": -1})


@converter("IsAllFinite", domain=_MS)
def is_all_finite(call: Call) -> list[Value]:
    """True if no element of any operand is infinite or NaN (as far as the attributes ask for that)."""
    wanted = [n for n, off in (("IsInf", "isnan_only"), ("IsNaN", "isinf_only")) if not call.attr(off, 0)]
    found = []
    for x in call.inputs:
        for op in wanted:
            if x is not None:
                flags = call.emit("Cast", call.emit(op, x), to=np.dtype(np.int32))
                found.append(call.emit("ReduceMax", flags, keepdims=0))
    total = found[0] if len(found) == 1 else call.emit("Max", *found)
    return call.result("Not", [call.emit("Cast", total, to=np.dtype(np.bool_))], {})
