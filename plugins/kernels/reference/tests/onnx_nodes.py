"""A small converter from ONNX test models to graphs: what the suite needs, without the frontend.

It does no upgrading: a model qualifies if its operators, at its opset, mean what they mean at the IR's opset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from autofusion.ir.graph import Graph, Value
from autofusion.ir.operators.schema import OPSET
from autofusion.ir.types import TensorType

_STRING = onnx.TensorProto.STRING
_DTYPE_ATTRIBUTES = {"to", "dtype", "output_dtype"}


def array_of(tensor: onnx.TensorProto) -> np.ndarray:
    """The data; strings as ``str`` objects."""
    return as_ir(numpy_helper.to_array(tensor))


def as_ir(array: Any) -> Any:
    """Test data as the IR has it: strings are ``str`` objects."""
    if isinstance(array, onnx.TensorProto):
        return array_of(array)
    if isinstance(array, list):
        return [as_ir(a) for a in array]
    if isinstance(array, np.generic):
        return np.asarray(array)
    if not isinstance(array, np.ndarray):
        return array
    if array.dtype.kind in "USO":
        texts = [s.decode() if isinstance(s, bytes) else str(s) for s in array.ravel()]
        return np.array(texts, dtype=object).reshape(array.shape)
    return array


def _attribute(proto: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(proto)
    if proto.name in _DTYPE_ATTRIBUTES and isinstance(value, int):
        return (np.dtype(object) if value == _STRING else helper.tensor_dtype_to_np_dtype(value)) if value else None
    if isinstance(value, onnx.TensorProto):
        return array_of(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        return [v.decode() if isinstance(v, bytes) else v for v in value]
    return value


def unusable(model: onnx.ModelProto) -> str:
    """Why a model does not say what it says in the IR's operator set; empty if it does."""
    version = {o.domain: o.version for o in model.opset_import}
    if set(version) - {"", "ai.onnx"}:
        return "another domain"
    for node in model.graph.node:
        if any(a.type in (a.GRAPH, a.GRAPHS, a.TYPE_PROTO) for a in node.attribute):
            return "subgraph or type attribute"
        try:
            used = defs.get_schema(node.op_type, version[""], "")
            ours = defs.get_schema(node.op_type, OPSET, "")
        except defs.SchemaError:
            return f"{node.op_type} is not in opset {OPSET}"
        if used.since_version < ours.since_version:
            return f"{node.op_type} of opset {used.since_version}"
        if len(node.input) > ours.max_input or len(node.output) > ours.max_output:
            return f"{node.op_type} has operands newer than opset {OPSET}"
        if {a.name for a in node.attribute} - set(ours.attributes):
            return f"{node.op_type} has attributes newer than opset {OPSET}"
    return ""


def _dtype(proto: onnx.TypeProto) -> TensorType | None:
    if not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
        return None
    elem = proto.tensor_type.elem_type
    return TensorType(np.dtype(object) if elem == _STRING else helper.tensor_dtype_to_np_dtype(elem), None)


def graph_of(model: onnx.ModelProto) -> Graph:
    """The model's graph, with the declared output types (not the shapes)."""
    source = model.graph
    graph = Graph(source.name)
    values: dict[str, Value | None] = {"": None}
    for tensor in source.initializer:
        values[tensor.name] = graph.constant(array_of(tensor), tensor.name)
    for info in source.input:
        values[info.name] = graph.add_input(info.name, None)
    declared = {info.name: _dtype(info.type) for info in source.output}
    for proto in source.node:
        node = graph.node(
            proto.op_type,
            [values[name] for name in proto.input],
            {a.name: _attribute(a) for a in proto.attribute},
            outputs=[declared.get(name) for name in proto.output],
            name=proto.name,
        )
        values.update(zip(proto.output, node.outputs, strict=True))
    for info in source.output:
        graph.add_output(values[info.name], info.name)
    return graph
