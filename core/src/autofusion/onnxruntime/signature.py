"""What a session tells about its model: arguments with their types in onnxruntime's words, and metadata."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import Graph
from autofusion.ir.types import Dim, OptionalType, SequenceType, TensorType, Type

_ELEMENTS: dict[str, tuple[str, int]] = {
    "f32": ("float", 1),
    "u8": ("uint8", 2),
    "i8": ("int8", 3),
    "u16": ("uint16", 4),
    "i16": ("int16", 5),
    "i32": ("int32", 6),
    "i64": ("int64", 7),
    "str": ("string", 8),
    "bool": ("bool", 9),
    "f16": ("float16", 10),
    "f64": ("double", 11),
    "u32": ("uint32", 12),
    "u64": ("uint64", 13),
    "c64": ("complex64", 14),
    "c128": ("complex128", 15),
    "bf16": ("bfloat16", 16),
    "f8e4m3fn": ("float8e4m3fn", 17),
    "f8e4m3fnuz": ("float8e4m3fnuz", 18),
    "f8e5m2": ("float8e5m2", 19),
    "f8e5m2fnuz": ("float8e5m2fnuz", 20),
    "u4": ("uint4", 21),
    "i4": ("int4", 22),
    "f4e2m1": ("float4e2m1", 23),
}
"""Short name of an element type -> (its name in ``tensor(...)``, its number in ONNX)."""


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output: ``shape`` has a number, a symbol or None for each dim."""

    name: str
    type: str
    shape: list[Dim]

    def __str__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Who made the model, and its own named texts."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 2**63 - 1
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


def type_name(type_: Type | None) -> str:
    """``tensor(float)`` and the like; an empty string for what is not known."""
    match type_:
        case TensorType():
            return f"tensor({_ELEMENTS.get(dtype_name(type_.dtype), (type_.dtype.name, 0))[0]})"
        case SequenceType():
            return f"seq({type_name(type_.element)})"
        case OptionalType():
            return f"optional({type_name(type_.element)})"
    return ""


def element_number(dtype: np.dtype) -> int:
    """The number of an element type in ONNX; 0 for one that has none."""
    return _ELEMENTS.get(dtype_name(dtype), ("", 0))[1]


def element_dtype(element: object) -> np.dtype:
    """The dtype of a NumPy type or of an ONNX number; raise TypeError for anything else."""
    from autofusion.ir.dtypes import dtype_from_name

    if isinstance(element, int):
        for name, (_, number) in _ELEMENTS.items():
            if number == element:
                return dtype_from_name(name)
        raise TypeError(f"{element} is not an element type of ONNX")
    return np.dtype(element)  # type: ignore[call-overload, no-any-return]


def arguments(graph: Graph) -> tuple[list[NodeArg], list[NodeArg], list[NodeArg]]:
    """(inputs, outputs, inputs with a stored default), in the file's words where it says something."""
    by_name = {v.name: v.type for v in graph.inputs}
    made = dict(zip(graph.output_names, (v.type for v in graph.outputs), strict=True))
    if graph.description is None:
        required = [_argument(v.name, v.type, v.type) for v in graph.inputs if v.default is None]
        defaults = [_argument(v.name, v.type, v.type) for v in graph.inputs if v.default is not None]
        return required, [_argument(name, type_, type_) for name, type_ in made.items()], defaults
    stated = graph.description
    return (
        [_argument(each.name, each.type, by_name.get(each.name)) for each in stated.inputs],
        [_argument(each.name, each.type, made.get(each.name)) for each in stated.outputs],
        [_argument(each.name, each.type, by_name.get(each.name)) for each in stated.defaults],
    )


def _argument(name: str, stated: Type | None, inferred: Type | None) -> NodeArg:
    type_ = stated if stated is not None else inferred
    if not isinstance(type_, TensorType):
        return NodeArg(name, type_name(type_), [])
    shape = type_.shape
    known = inferred.shape if isinstance(inferred, TensorType) else None
    if shape is None:
        return NodeArg(name, type_name(type_), list(known or ()))
    if known is not None and len(known) != len(shape):
        known = None
    # A size that follows from the rest of the model says more than a symbol, and a symbol more than nothing.
    dims = [k if isinstance(k, int) or s is None else s for s, k in zip(shape, known or shape, strict=True)]
    return NodeArg(name, type_name(type_), dims)


def metadata(graph: Graph) -> ModelMetadata:
    """The metadata of a loaded graph."""
    stated = graph.description
    if stated is None:
        return ModelMetadata(graph_name=graph.name)
    return ModelMetadata(
        producer_name=stated.producer,
        graph_name=stated.graph_name,
        domain=stated.domain,
        description=stated.text,
        graph_description=stated.graph_text,
        version=2**63 - 1 if stated.version is None else stated.version,
        custom_metadata_map=dict(stated.properties),
    )
