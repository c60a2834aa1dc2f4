"""AttributeProto to plain values: numbers, strings, lists of them, arrays, types; graphs stay in their proto form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto

from autofusion.frontends import ModelError
from autofusion_frontend_onnx import proto
from autofusion_frontend_onnx.tensors import sparse_to_array, to_array

_OF_FIELD = {
    "f": AttributeProto.FLOAT,
    "i": AttributeProto.INT,
    "s": AttributeProto.STRING,
    "t": AttributeProto.TENSOR,
    "g": AttributeProto.GRAPH,
    "tp": AttributeProto.TYPE_PROTO,
    "sparse_tensor": AttributeProto.SPARSE_TENSOR,
}
_OF_LIST = {
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
    "tensors": AttributeProto.TENSORS,
    "graphs": AttributeProto.GRAPHS,
}


def text(data: bytes) -> str:
    """A string attribute; bytes that are not UTF-8 survive the way there and back."""
    return data.decode("utf-8", "surrogateescape")


def kind_of(attribute: AttributeProto) -> int:
    """The attribute's type; files of the first IR version do not state it, so what is filled in tells."""
    if attribute.type:
        return attribute.type
    for field, kind in _OF_FIELD.items():
        if attribute.HasField(field):
            return kind
    for field, kind in _OF_LIST.items():
        if len(getattr(attribute, field)):
            return kind
    return AttributeProto.UNDEFINED


def read_attributes(
    node: onnx.NodeProto, given: Mapping[str, AttributeProto], file: Path | None, label: str
) -> dict[str, Any]:
    """The node's attributes by name. ``given`` are those of the function call around it, for references to them."""
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        name = attribute.name
        if name in found:
            raise ModelError(f"{label} states attribute '{name}' twice")
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in given:
                continue  # the function's caller left it out, so the operator's own default counts
            attribute = given[attribute.ref_attr_name]
        found[name] = read_attribute(attribute, file, f"attribute '{name}' of {label}")
    return found


def read_attribute(attribute: AttributeProto, file: Path | None, what: str) -> Any:
    """The value of one attribute."""
    reader = _READERS.get(kind_of(attribute))
    if reader is None:
        raise ModelError(f"{what} has no value, or one of a type that is not known here ({attribute.type})")
    return reader(attribute, file, what)


_READERS: dict[int, Callable[[AttributeProto, Path | None, str], Any]] = {
    AttributeProto.FLOAT: lambda a, file, what: a.f,
    AttributeProto.INT: lambda a, file, what: a.i,
    AttributeProto.STRING: lambda a, file, what: text(a.s),
    AttributeProto.TENSOR: lambda a, file, what: to_array(a.t, file, what),
    AttributeProto.SPARSE_TENSOR: lambda a, file, what: sparse_to_array(a.sparse_tensor, file, what),
    AttributeProto.TYPE_PROTO: lambda a, file, what: proto.value_type(a.tp),
    AttributeProto.GRAPH: lambda a, file, what: a.g,
    AttributeProto.FLOATS: lambda a, file, what: list(a.floats),
    AttributeProto.INTS: lambda a, file, what: list(a.ints),
    AttributeProto.STRINGS: lambda a, file, what: [text(s) for s in a.strings],
    AttributeProto.TENSORS: lambda a, file, what: [to_array(t, file, what) for t in a.tensors],
    AttributeProto.GRAPHS: lambda a, file, what: list(a.graphs),
    AttributeProto.TYPE_PROTOS: lambda a, file, what: [proto.value_type(t) for t in a.type_protos],
    AttributeProto.SPARSE_TENSORS: lambda a, file, what: [sparse_to_array(t, file, what) for t in a.sparse_tensors],
}
