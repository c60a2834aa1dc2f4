"""Reads the protobuf message of a model file, and turns its versions and signatures into plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from autofusion.frontends import ModelError
from autofusion.ir.types import Dim, OptionalType, SequenceType, TensorType, Type
from autofusion_frontend_onnx import sniff, wire
from autofusion_frontend_onnx.tensors import element_type

_PROTOBUF_LIMIT = (1 << 31) - 1
_NOT_SYMBOLS = frozenset({"", "?", "-1", "None", "none", "unk", "unknown"})
"""Names that exporters give to several dims that have nothing to do with each other."""


def read_model(path: Path, weights: bool = True) -> onnx.ModelProto:
    """Parse the file; raise ModelError that says what the file is if it is not an ONNX model.

    Without ``weights``, much raw data of initialisers stays in the file (see ``wire``).
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ModelError(f"'{path}' is not a file; expected an ONNX model file")
        if size > _PROTOBUF_LIMIT:
            raise ModelError(
                f"'{path}' has {size} bytes, more than a protobuf message may have ({_PROTOBUF_LIMIT}); save the model "
                "with its weights as external data"
            )
        data = (None if weights else wire.read_without_weights(path)) or path.read_bytes()
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {error.strerror or error}") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # the protobuf runtimes raise classes of their own
        raise ModelError(f"'{path}' is not an ONNX model; it seems to be {sniff.describe(path)}") from error
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError(
            f"'{path}' is not an ONNX model: it has no nodes and no outputs; it seems to be {sniff.describe(path)}"
        )
    return model


def domain_name(domain: str) -> str:
    """The default domain has two spellings; one of them is used here."""
    return "" if domain == "ai.onnx" else domain


def opsets(imports: Any, ir_version: int, what: str) -> dict[str, int]:
    """Domain -> operator set version."""
    found: dict[str, int] = {}
    for entry in imports:
        domain = domain_name(entry.domain)
        if found.get(domain, entry.version) != entry.version:
            raise ModelError(
                f"{what} imports versions {found[domain]} and {entry.version} of domain '{domain or 'ai.onnx'}'"
            )
        found[domain] = entry.version
    if not found and ir_version < 3:
        found[""] = 1  # before IR version 3 there was one operator set
    newest = onnx.defs.onnx_opset_version()
    if found.get("", 1) > newest:
        raise ModelError(
            f"{what} needs operator set {found['']}, and the installed onnx {onnx.__version__} knows up to {newest}; "
            "install a newer onnx, or export the model for an older operator set"
        )
    if found.get("", 1) < 1:
        raise ModelError(f"{what} imports version {found['']} of the operator set; expected 1 to {newest}")
    return found


def known_dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    """A dim as the IR may rely on it: names that exporters give to unrelated dims are not symbols."""
    stated = stated_dim(dim)
    return None if isinstance(stated, str) and stated.strip() in _NOT_SYMBOLS else stated


def stated_dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    """A dim as the file states it."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def value_type(proto: onnx.TypeProto, dim: Callable[[onnx.TensorShapeProto.Dimension], Dim] = known_dim) -> Type | None:
    """The IR's type; None for what it has no type for (maps, opaque values), or where nothing is said."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            dtype = element_type(proto.tensor_type.elem_type)
            if dtype is None:
                return None
            if not proto.tensor_type.HasField("shape"):
                return TensorType(dtype, None)
            return TensorType(dtype, tuple(dim(d) for d in proto.tensor_type.shape.dim))
        case "sequence_type":
            element = value_type(proto.sequence_type.elem_type, dim)
            return None if element is None else SequenceType(element)
        case "optional_type":
            element = value_type(proto.optional_type.elem_type, dim)
            return None if element is None else OptionalType(element)
    return None


def merge(inferred: Type | None, declared: Type | None) -> Type | None:
    """The inferred type; what the file says only counts where nothing is inferred.

    Stated shapes go stale when someone edits a model's inputs, and runtimes ignore them. So of a tensor whose rank is
    not inferred only the rank is taken over, not its sizes.
    """
    if inferred is None:
        return declared
    if isinstance(inferred, TensorType) and isinstance(declared, TensorType) and inferred.shape is None:
        return inferred.with_shape(None if declared.shape is None else (None,) * len(declared.shape))
    return inferred


def type_proto(type_: Type | None) -> onnx.TypeProto:
    """The ONNX form of a type; an empty one where nothing is known."""
    made = onnx.TypeProto()
    match type_:
        case TensorType():
            made.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(type_.dtype)
            if type_.shape is not None:
                made.tensor_type.shape.SetInParent()
                for dim in type_.shape:
                    one = made.tensor_type.shape.dim.add()
                    if isinstance(dim, int):
                        one.dim_value = dim
                    elif dim is not None:
                        one.dim_param = dim
        case SequenceType():
            made.sequence_type.elem_type.CopyFrom(type_proto(type_.element))
        case OptionalType():
            made.optional_type.elem_type.CopyFrom(type_proto(type_.element))
    return made
