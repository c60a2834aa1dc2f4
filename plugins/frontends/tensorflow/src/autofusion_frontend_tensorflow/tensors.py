"""TensorProto to array, and TensorFlow's element types to numpy's."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.types import Shape
from autofusion_frontend_tensorflow.protos import DATA_TYPES

_NUMPY = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "HALF": "float16",
    "BOOL": "bool",
    "STRING": "object",
    **{name.upper(): name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name.upper(): name for name in ("complex64", "complex128")},
    "QINT8": "int8",
    "QUINT8": "uint8",
    "QINT32": "int32",
    "QINT16": "int16",
    "QUINT16": "uint16",
}
_ML = {
    "BFLOAT16": "bfloat16",
    "FLOAT8_E5M2": "float8_e5m2",
    "FLOAT8_E4M3FN": "float8_e4m3fn",
    "FLOAT8_E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8_E5M2FNUZ": "float8_e5m2fnuz",
    "INT4": "int4",
    "UINT4": "uint4",
    "INT2": "int2",
    "UINT2": "uint2",
}
_LISTS = {
    "FLOAT": "float_val",
    "DOUBLE": "double_val",
    "INT64": "int64_val",
    "BOOL": "bool_val",
    "STRING": "string_val",
    "COMPLEX64": "scomplex_val",
    "COMPLEX128": "dcomplex_val",
    "UINT32": "uint32_val",
    "UINT64": "uint64_val",
    "HALF": "half_val",
    "BFLOAT16": "half_val",
}
_MOST_BYTES = 1 << 34


def type_name(number: int) -> str:
    """``FLOAT`` for 1; the number itself for one that is not known. References count as what they refer to."""
    number = number % 100
    return DATA_TYPES[number] if 0 <= number < len(DATA_TYPES) else str(number)


@cache
def numpy_type(number: int) -> np.dtype | None:
    """The element type with this number, or None for resources, variants and types that the IR does not have."""
    name = type_name(number)
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    if name in _ML:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, _ML[name]))
    return None


def shape_of(proto: Any) -> Shape | None:
    """A TensorShapeProto as a shape; unknown dims are None."""
    if proto.unknown_rank:
        return None
    return tuple(int(d.size) if d.size >= 0 else None for d in proto.dim)


def to_array(proto: Any, where: str) -> np.ndarray:
    """The data of a TensorProto, read-only where it is a view of the file's bytes.

    A list of values shorter than the tensor goes on with its last value; an empty one is zeros. Raises ModelError that
    names ``where``.
    """
    dtype = numpy_type(proto.dtype)
    if dtype is None:
        raise ModelError(f"{where}: constants of type DT_{type_name(proto.dtype)} cannot be read")
    dims = shape_of(proto.tensor_shape)
    if dims is None or any(d is None for d in dims):
        raise ModelError(f"{where}: a constant must have a known shape")
    shape = tuple(int(d) for d in dims if d is not None)
    count = math.prod(shape)
    if count * max(dtype.itemsize, 1) > _MOST_BYTES:
        raise ModelError(f"{where}: a constant of shape {list(shape)} is too large to be true")
    content = proto.tensor_content
    if content and dtype.kind != "O":
        if len(content) != count * dtype.itemsize:
            raise ModelError(
                f"{where}: shape {list(shape)} needs {count * dtype.itemsize} bytes, found {len(content)}: "
                "the file is damaged"
            )
        return np.frombuffer(content, dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype).reshape(shape)
    return _from_list(proto, dtype, shape, count, where)


def _from_list(proto: Any, dtype: np.dtype, shape: tuple[int, ...], count: int, where: str) -> np.ndarray:
    name = type_name(proto.dtype)
    field = _LISTS.get(name, "float8_val" if name.startswith("FLOAT8") else "int_val")
    given: Any = getattr(proto, field)
    if name in ("HALF", "BFLOAT16"):
        data = np.array(given, np.uint16).view(dtype)
    elif name.startswith("FLOAT8"):
        data = np.frombuffer(given, np.uint8).view(dtype)
    elif name.startswith("COMPLEX"):
        data = np.array(given, np.float32 if name == "COMPLEX64" else np.float64).view(dtype)
    elif name == "STRING":
        data = np.empty(len(given), object)
        data[:] = [text.decode("utf-8", "surrogateescape") for text in given]
    else:
        data = np.array(given, np.int64 if dtype.kind in "iu" and dtype.itemsize < 8 else dtype).astype(dtype)
    if len(data) > count:
        raise ModelError(f"{where}: shape {list(shape)} holds {count} elements, found {len(data)}: the file is damaged")
    if len(data) == 0:
        blank: Any = "" if dtype.kind == "O" else 0
        return np.full(shape, blank, dtype)
    if len(data) < count:
        data = np.concatenate([data, np.full(count - len(data), data[-1], dtype)])
    return data.reshape(shape)
