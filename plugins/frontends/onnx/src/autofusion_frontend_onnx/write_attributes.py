"""Plain attribute values back to AttributeProto, by the type that the operator's schema gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from autofusion.frontends import ModelError
from autofusion.ir.graph import Graph
from autofusion.ir.types import OptionalType, SequenceType, TensorType
from autofusion_frontend_onnx.proto import type_proto

WriteGraph = Callable[[Graph], onnx.GraphProto]

_CONVERT: dict[int, Callable[[Any], Any]] = {
    AttributeProto.INT: int,
    AttributeProto.FLOAT: float,
    AttributeProto.STRING: lambda v: v.encode("utf-8", "surrogateescape") if isinstance(v, str) else v,
    AttributeProto.INTS: lambda v: [int(i) for i in v],
    AttributeProto.FLOATS: lambda v: [float(f) for f in v],
    AttributeProto.STRINGS: lambda v: [s.encode("utf-8", "surrogateescape") for s in v],
    AttributeProto.TENSOR: lambda v: tensor(np.asarray(v)),
    AttributeProto.TENSORS: lambda v: [tensor(np.asarray(a)) for a in v],
    AttributeProto.TYPE_PROTO: lambda v: type_proto(v),
}


def tensor(array: np.ndarray, name: str = "") -> onnx.TensorProto:
    """An array as a TensorProto; strings may hold bytes that are not UTF-8."""
    if array.dtype == object or array.dtype.kind in "US":
        made = onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING, dims=array.shape)
        made.string_data.extend(str(s).encode("utf-8", "surrogateescape") for s in array.reshape(-1))
        return made
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def attribute(name: str, value: Any, kind: int | None, write: WriteGraph, where: str) -> AttributeProto:
    """The attribute; ``kind`` is the schema's type, or None if there is no schema to ask."""
    if isinstance(value, Graph):
        return helper.make_attribute(name, write(value))
    if isinstance(value, np.dtype):
        value = helper.np_dtype_to_tensor_dtype(value)
    kind = _guess(value) if kind is None else kind
    convert = _CONVERT.get(kind)
    if convert is None:
        raise ModelError(f"{where}: attribute '{name}' of type {type(value).__name__} cannot be written to ONNX")
    return helper.make_attribute(name, convert(value), attr_type=kind)


def _guess(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(AttributeProto.TENSOR)
    if isinstance(value, TensorType | SequenceType | OptionalType):
        return int(AttributeProto.TYPE_PROTO)
    many = isinstance(value, list | tuple)
    first = (value[0] if value else 0) if many else value
    if isinstance(first, str | bytes):
        return int(AttributeProto.STRINGS if many else AttributeProto.STRING)
    if isinstance(first, float | np.floating):
        return int(AttributeProto.FLOATS if many else AttributeProto.FLOAT)
    if isinstance(first, np.ndarray):
        return int(AttributeProto.TENSORS)
    return int(AttributeProto.INTS if many else AttributeProto.INT)
