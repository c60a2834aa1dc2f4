"""Element types: plain ``numpy.dtype`` objects, with the short names that the text form uses.

NumPy (with ml_dtypes for bfloat16, float8 and 4-bit integers) already has every element type of the ONNX
operator set, so the IR has no class of its own for them. Strings are ``object`` arrays of ``str``.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from autofusion.errors import GraphError, nearest

_NUMPY = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bool": "bool",
    "c64": "complex64",
    "c128": "complex128",
    "str": "object",
}
_ML = {
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0": "float8_e8m0fnu",
    "f4e2m1": "float4_e2m1fn",
    "i4": "int4",
    "u4": "uint4",
    "i2": "int2",
    "u2": "uint2",
}


@cache
def dtype_from_name(name: str) -> np.dtype:
    """Return the dtype that the text form calls ``name`` (``"f32"``); raise GraphError for an unknown name."""
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    if name in _ML:
        import ml_dtypes  # only models with such elements pay for the import

        dtype: np.dtype = np.dtype(getattr(ml_dtypes, _ML[name]))
        return dtype
    raise GraphError(f"unknown element type {name!r}{nearest(name, [*_NUMPY, *_ML])}")


@cache
def dtype_name(dtype: np.dtype) -> str:
    """Return the short name of ``dtype``; raise GraphError if the IR has none for it."""
    if dtype.kind in "US":
        return "str"
    for short, long in (_NUMPY | _ML).items():
        if dtype.name == long:
            return short
    raise GraphError(f"element type {dtype!r} has no name in the IR; expected one of {', '.join([*_NUMPY, *_ML])}")


F32 = np.dtype(np.float32)
I64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
