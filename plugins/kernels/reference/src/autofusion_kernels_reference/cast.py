"""Conversions between element types: numbers, the 8-bit and smaller floats, and strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, is_float, is_integer

_OBJECT = np.dtype(object)
_LIMITS = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
"""The largest finite value of the types that have a saturating and a plain conversion."""
_WITHOUT_INFINITY = {"float4_e2m1fn": 6.0}
"""Types that always saturate, since they have neither infinity nor NaN."""


def _from_strings(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Parse decimal and scientific notation, and INF and NaN in any case."""
    if is_integer(dtype):
        return np.array([int(s) for s in x.ravel()], np.int64).reshape(x.shape).astype(dtype)
    numbers = np.array([float(s) for s in x.ravel()], np.float64).reshape(x.shape)
    return convert(numbers, dtype)


def _to_strings(x: np.ndarray) -> np.ndarray:
    """The shortest decimal form that reads back as the same number."""
    out = np.empty(x.shape, object)
    if x.dtype.kind == "f":
        texts = [_number_text(v) for v in x.ravel()]
    elif is_float(x.dtype):
        texts = [_number_text(v) for v in x.astype(np.float32).ravel()]
    elif x.dtype.kind == "b":
        texts = ["1" if v else "0" for v in x.ravel()]
    else:
        texts = [str(int(v)) for v in x.ravel()]
    out.ravel()[:] = texts
    return out


def _number_text(v: Any) -> str:
    if np.isnan(v):
        return "NaN"
    if np.isinf(v):
        return "INF" if v > 0 else "-INF"
    return str(v)


def _to_exponents(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The least power of two that is not below ``|x|``, as an exponent with a bias of 127; NaN where there is none."""
    mantissa, exponent = np.frexp(np.abs(x))
    codes = np.clip(exponent - (mantissa == 0.5) + 127, 0, 254)
    codes = np.where(x == 0, 0, np.where(np.isfinite(x), codes, 255))
    return codes.astype(np.uint8).view(dtype)


def convert(x: np.ndarray, dtype: np.dtype, saturate: bool = True) -> np.ndarray:
    """``x`` as ``dtype``.

    Floats to integers truncate toward zero (what lies outside the integer's range is undefined by the operator set).
    Only the conversions to 8-bit floats saturate, infinity included, and only if ``saturate``. A NaN stays one.
    """
    if x.dtype == dtype:
        return x
    if x.dtype == _OBJECT:
        return _from_strings(x, dtype)
    if dtype == _OBJECT:
        return _to_strings(x)
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real  # a complex number as a real one is its real part
    if dtype.kind == "b":
        return (x.astype(np.float64) if x.dtype.kind == "V" else x) != 0
    if dtype.name == "float8_e8m0fnu":
        return _to_exponents(x.astype(np.float64), dtype)
    limit = _WITHOUT_INFINITY.get(dtype.name) or (_LIMITS.get(dtype.name) if saturate else None)
    if limit is not None:
        values = x.astype(np.float64)
        return np.where(np.isnan(values), values, np.clip(values, -limit, limit)).astype(dtype)
    if is_integer(dtype) and dtype.kind == "V":
        # 4-bit integers keep the low bits, like every wider integer type.
        whole = np.trunc(x.astype(np.float64)).astype(np.int64) if not is_integer(x.dtype) else x.astype(np.int64)
        bits = int(dtype.name.lstrip("uint"))
        low = whole & ((1 << bits) - 1)
        if dtype.name.startswith("int"):
            low = np.where(low >= 1 << (bits - 1), low - (1 << bits), low)
        return low.astype(dtype)
    if is_float(x.dtype) and is_integer(dtype) and dtype.itemsize < 8:
        return x.astype(np.int64).astype(dtype)
    if x.dtype.kind == "V" and dtype.kind != "V":
        return x.astype(np.float64 if is_float(x.dtype) else np.int64).astype(dtype)
    if dtype.kind == "V" and not is_float(x.dtype):
        return x.astype(np.float64).astype(dtype)
    return x.astype(dtype)


def _cast(node: Node, inputs: Inputs) -> list[Any]:
    return [convert(inputs[0], node.attrs["to"], bool(node.attr("saturate", 1)))]


def _cast_like(node: Node, inputs: Inputs) -> list[Any]:
    return [convert(inputs[0], inputs[1].dtype, bool(node.attr("saturate", 1)))]


def _bit_cast(node: Node, inputs: Inputs) -> list[Any]:
    return [np.ascontiguousarray(inputs[0]).reshape(inputs[0].shape).view(node.attrs["to"])]


OPS: dict[str, OpFunction] = {"BitCast": _bit_cast, "Cast": _cast, "CastLike": _cast_like}
