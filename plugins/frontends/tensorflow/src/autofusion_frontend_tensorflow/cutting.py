"""Values inside the model that the user makes its inputs: ``NODE``, ``NODE:1``, or with a type ``NODE:uint8[?,?,3]``.

What the network is fed by is often made by operators that no runtime for networks has: decoders of images, queues,
tables of words. The graph is cut behind them then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from autofusion.frontends import AutofusionError, GraphError, OptionError, nearest
from autofusion.ir.dtypes import dtype_from_name
from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import Dim, TensorType
from autofusion_frontend_tensorflow.files import Source
from autofusion_frontend_tensorflow.scope import Model, Scope
from autofusion_frontend_tensorflow.source import Ref, SourceNode, parse_ref

_STATED = re.compile(r"(?P<node>.+?):(?P<dtype>[A-Za-z]\w*)(\[(?P<dims>[^\]]*)\])?")
_TYPE_ATTRS = ("dtype", "DstT", "output_type", "out_type", "Tout", "element_dtype", "T")
_LISTS = ("component_types", "output_types", "Tdense", "OUT_TYPE", "dense_types")
"""Attributes that hold the type of the only result, or of each."""

_FIXED = {
    "uint8": "DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodePng",
    "float32": "AudioSpectrogram DecodeWav Mfcc StringToNumber",
    "int64": "StringToHashBucket StringToHashBucketFast StringToHashBucketStrong Where",
    "int32": "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 StringLength UnicodeDecode",
    "bool": "Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual LogicalAnd LogicalNot LogicalOr NotEqual",
    "str": "AsString ReadFile ReaderReadV2 RegexReplace StringJoin StringLower StringSplit StringUpper Substr",
}
"""Operators whose result is of one type, or of it unless an attribute says otherwise."""
_OF_FIXED = {op: np.dtype(object if name == "str" else name) for name, ops in _FIXED.items() for op in ops.split()}
_IMAGES = frozenset("DecodeAndCropJpeg DecodeBmp DecodeJpeg DecodePng".split())


def preset(scope: Scope, source: Source, wanted: Sequence[str]) -> list[Value]:
    """Make the values that the user names inputs of the graph, before anything reads them."""
    chosen = []
    for text in wanted:
        name, stated = parse(text)
        ref = source.inputs.get(name) or parse_ref(name)
        if ref[0] not in scope.body.nodes:
            near = nearest(name, [*source.inputs, *scope.body.nodes])
            raise OptionError(f"the model has no node '{name}' to be an input{near}")
        if stated is not None and stated.shape is None:
            stated = TensorType(stated.dtype, _dims(scope.body.nodes[ref[0]], ref[1]))
        value = scope.graph.add_input(name, stated or _type_of(scope, ref))
        scope.values[ref] = value
        chosen.append(value)
    return chosen


def parse(text: str) -> tuple[str, TensorType | None]:
    """The name of a value and, where the user states it, its type. Raise OptionError for a type that is not one."""
    match = _STATED.fullmatch(text)
    if match is None:
        return text, None
    dims: tuple[Dim, ...] | None = None
    if match["dims"] is not None:
        parts = [part.strip() for part in match["dims"].split(",")] if match["dims"].strip() else []
        if not all(re.fullmatch(r"\d+|\?|-1|None", part) for part in parts):
            raise OptionError(f"input '{text}': '{match['dims']}' is not a list of sizes like 1,?,?,3")
        dims = tuple(int(p) if p.isdigit() else f"{match['node']}.{axis}" for axis, p in enumerate(parts))
    return match["node"], TensorType(_element(match["dtype"], text), dims)


def _element(name: str, text: str) -> np.dtype:
    if name in ("str", "string", "object"):
        return np.dtype(object)
    try:
        return dtype_from_name(name)
    except GraphError as error:
        try:
            return np.dtype(name)
        except TypeError:
            raise OptionError(f"input '{text}': {error}") from None


def _type_of(scope: Scope, ref: Ref) -> TensorType:
    """The type of a value inside the model: by importing what it depends on elsewhere, or as its node states it."""
    node = scope.body.nodes[ref[0]]
    try:
        model = Model(scope.model.path, scope.model.library, scope.model.converters, ranks=scope.model.ranks)
        (value,) = Scope(model, Graph("aside"), scope.body).resolve([ref])
        if isinstance(value.type, TensorType) and value.dtype is not None:
            return value.type
    except AutofusionError:
        pass  # it depends on what cannot be imported: likely why the user cuts here
    dtype = _element_type(node, ref[1])
    if dtype is None:
        raise OptionError(
            f"'{ref[0]}' cannot be an input: nothing says the element type of {node.label}. State it, with a shape if "
            f"it matters, as in '{ref[0]}:float32[?,224,224,3]'"
        )
    return TensorType(dtype, _dims(node, ref[1]))


def _element_type(node: SourceNode, port: int) -> np.dtype | None:
    for name in _TYPE_ATTRS:
        stated = getattr(node.attr(name), "dtype", None)
        if stated is not None:
            return np.dtype(stated)
    for name in _LISTS:
        each = node.attr(name, [])
        if port < len(each) and getattr(each[port], "dtype", None) is not None:
            return np.dtype(each[port].dtype)
    return _OF_FIXED.get(node.op) if port == 0 else None


def _dims(node: SourceNode, port: int) -> tuple[Dim, ...] | None:
    for name in ("_output_shapes", "output_shapes", "dense_shapes", "shapes"):
        shapes = node.attr(name, [])
        dims: tuple[int | None, ...] | None = shapes[port].dims if port < len(shapes) else None
        if dims is not None:
            return tuple(f"{node.name}.{axis}" if d is None else d for axis, d in enumerate(dims))
    if node.op in _IMAGES:
        return f"{node.name}.height", f"{node.name}.width", int(node.attr("channels", 0)) or f"{node.name}.channels"
    return None
