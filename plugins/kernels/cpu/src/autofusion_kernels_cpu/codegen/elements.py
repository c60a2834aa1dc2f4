"""Element types in memory and in registers: how each numpy dtype is loaded, computed with and stored.

Half-precision elements are computed with in float32 and rounded after every operator, which gives what an operator by
operator run would. Booleans are bytes in memory and i1 in registers.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.values import F16, F32, F64, I1, I8, I16, I32, I64, Operandish, Type, Value

_PLAIN = {
    "f32": F32,
    "f64": F64,
    "i8": I8,
    "i16": I16,
    "i32": I32,
    "i64": I64,
    "u8": I8,
    "u16": I16,
    "u32": I32,
    "u64": I64,
}
_HALF = ("f16", "bf16")


def supported(dtype: np.dtype) -> bool:
    """True if kernels can hold elements of ``dtype``."""
    try:
        name = dtype_name(dtype)
    except Exception:
        return False
    return name in _PLAIN or name in _HALF or name == "bool"


def memory_type(dtype: np.dtype) -> Type:
    """The LLVM element type in memory."""
    name = dtype_name(dtype)
    return I16 if name in _HALF else I8 if name == "bool" else _PLAIN[name]


def register_type(dtype: np.dtype) -> Type:
    """The LLVM element type that arithmetic is done in."""
    name = dtype_name(dtype)
    return F32 if name in _HALF else I1 if name == "bool" else _PLAIN[name]


def decode(f: Function, dtype: np.dtype, raw: Value) -> Value:
    """A value as loaded from memory, ready for arithmetic."""
    name = dtype_name(dtype)
    if name == "f16":
        return f.convert(f.bitcast(raw, F16), F32)
    if name == "bf16":
        return f.bitcast(f.extend_unsigned(raw, I32) << 16, F32)
    return f.ne(raw, 0) if name == "bool" else raw


def encode(f: Function, dtype: np.dtype, value: Value) -> Value:
    """The reverse of ``decode``, rounding to nearest even."""
    name = dtype_name(dtype)
    if name == "f16":
        return f.bitcast(f.convert(value, F16), I16)
    if name == "bf16":
        bits = f.bitcast(value, I32)
        rounded = f.lshr(bits + (f.lshr(bits, 16) & 1) + 0x7FFF, 16)
        # Rounding could carry a NaN's payload into an infinity; its top bits with the quiet bit set cannot.
        return f.convert(f.select(f.is_nan(value), f.lshr(bits, 16) | 0x40, rounded), I16)
    return f.extend_unsigned(value, I8) if name == "bool" else value


def rounded(f: Function, dtype: np.dtype, value: Value) -> Value:
    """``value`` as it would be after a trip through memory."""
    return decode(f, dtype, encode(f, dtype, value)) if dtype_name(dtype) in _HALF else value


def load(
    f: Function, dtype: np.dtype, pointer: Value, index: Operandish, lanes: int, mask: Value | None = None
) -> Value:
    """``lanes`` neighbouring elements from element ``index`` on; zero outside ``mask``."""
    return decode(f, dtype, f.load(pointer, index, memory_type(dtype).of(lanes), mask=mask))


def broadcast(f: Function, dtype: np.dtype, pointer: Value, index: Operandish, lanes: int) -> Value:
    """Element ``index`` in every lane."""
    return decode(f, dtype, f.splat(f.load(pointer, index, memory_type(dtype)), lanes))


def store(
    f: Function,
    dtype: np.dtype,
    value: Value,
    pointer: Value,
    index: Operandish,
    mask: Value | None = None,
    streaming: bool = False,
) -> None:
    """Write the vector's elements from element ``index`` on."""
    f.store(encode(f, dtype, value), pointer, index, mask=mask, streaming=streaming)
