"""AttributeProto to Python value: attributes of primitives, constants, and the declared types of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.types import TensorType
from autofusion_frontend_mindspore import dtypes
from autofusion_frontend_mindspore.abstract import TOKEN, Declared, ScalarType
from autofusion_frontend_mindspore.protos import attribute_type
from autofusion_frontend_mindspore.tensors import to_array

_INTEGERS = {"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}


def kind_of(attribute: Any) -> str:
    """The name of the attribute's type."""
    return attribute_type(attribute.type)


def literal(attribute: Any, folder: Path, owner: str) -> Any:
    """The value of an attribute or constant.

    Numbers, bools, texts and None are Python's, tuples and lists are tuples, tensors are arrays, element types are
    numpy dtypes and monads are ``TOKEN``. Raises ModelError, naming ``owner``, for anything else.
    """
    if attribute.ref_attr_name:
        raise ModelError(f"{owner} is written as MindSpore 1 did; export the network again with MindSpore 2.7 or newer")
    kind = kind_of(attribute)
    if kind in ("TUPLE", "LIST"):
        return tuple(_element(v, folder, owner) for v in attribute.values)
    if kind == "DICT":
        return {v.name: tuple(_element(x, folder, owner) for x in v.values) for v in attribute.values}
    if kind == "TENSORS" and not attribute.tensors[0].raw_data and not _is_empty(attribute.tensors[0]):
        return dtypes.of_tensor(attribute.tensors[0].data_type, owner)
    return _plain(attribute, kind, folder, owner)


def _is_empty(tensor: Any) -> bool:
    # A tensor constant is called value0, and one of no elements has no data; an element type has neither name nor dims.
    return bool(tensor.name) and 0 in tensor.dims


def _plain(attribute: Any, kind: str, folder: Path, owner: str) -> Any:
    if kind == "BOOL":
        return bool(attribute.i)
    if kind in _INTEGERS:
        return int(attribute.i)
    if kind == "FLOAT":
        return float(attribute.f)
    if kind == "DOUBLE":
        return float(attribute.d)
    if kind in ("STRING", "CLASS_TYPE", "NAME_SPACE", "SYMBOL"):
        return attribute.s.decode("utf-8", "replace")
    if kind in ("NONE", "TYPE_NULL", "UNDEFINED"):
        return None
    if kind in ("UMONAD", "IOMONAD"):
        return TOKEN
    if kind == "TENSORS":
        return to_array(attribute.tensors[0], folder, owner)
    if kind == "TENSOR":
        return to_array(attribute.t, folder, owner)
    raise ModelError(f"{owner} has a constant of kind {kind}, which cannot be read")


def _element(attribute: Any, folder: Path, owner: str) -> Any:
    # Inside a tuple the repeated fields are used, with one element each.
    kind = kind_of(attribute)
    if kind == "BOOL" and attribute.ints:
        return bool(attribute.ints[0])
    if kind in _INTEGERS and attribute.ints:
        return int(attribute.ints[0])
    if kind == "FLOAT" and attribute.floats:
        return float(attribute.floats[0])
    if kind == "DOUBLE" and attribute.doubles:
        return float(attribute.doubles[0])
    if kind == "STRING" and attribute.strings:
        return attribute.strings[0].decode("utf-8", "replace")
    return literal(attribute, folder, owner)


def declared(attribute: Any) -> tuple[Declared, str]:
    """What a node's `shape` attribute says: the type of its result, and its storage ("" if it has none of its own)."""
    kind = kind_of(attribute)
    if kind == "TENSORS" and attribute.tensors:
        tensor = attribute.tensors[0]
        return tensor_type(tensor), tensor.ref_key
    if kind == "SCALAR" and attribute.tensors:
        return _scalar(attribute.tensors[0]), ""
    if kind in ("TUPLE", "LIST"):
        if attribute.seq_info.is_dyn_len:
            return None, ""
        return tuple(declared(v)[0] for v in attribute.values), ""
    return None, ""


def _scalar(tensor: Any) -> Declared:
    try:
        return ScalarType(dtypes.of_tensor(tensor.data_type, "a number"))
    except ModelError:
        return None


def tensor_type(tensor: Any) -> TensorType | None:
    """The type that a TensorProto declares; -1 is an unknown dim, a single -2 an unknown rank."""
    try:
        dtype = dtypes.of_tensor(tensor.data_type, "a type")
    except ModelError:
        return None
    if list(tensor.dims) == [-2]:
        return TensorType(dtype, None)
    return TensorType(dtype, tuple(int(d) if d >= 0 else None for d in tensor.dims))


def as_python(value: Any) -> Any:
    """Arrays of constants as Python numbers and nested tuples; anything else as it is."""
    if isinstance(value, np.ndarray):
        return _tuples(value.tolist())
    return value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
