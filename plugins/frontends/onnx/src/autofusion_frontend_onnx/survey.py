"""A first walk over the whole model: every name is text, and the names of values are known before any is made up.

The protobuf runtime hands out ``bytes`` for a string that is not UTF-8; here that becomes an error once and for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from autofusion.frontends import ModelError


def survey(model: onnx.ModelProto) -> set[str]:
    """The names of all values of the main graph and its bodies; raise ModelError if a name anywhere is not text."""
    _check((entry.domain for entry in model.opset_import), "the domain of an operator set")
    names = _graphs([model.graph])
    for function in model.functions:
        what = f"function {function.name!r}"
        _check((function.name, function.domain, function.overload, *function.input, *function.output), what)
        _check((*function.attribute, *(e.domain for e in function.opset_import)), what)
        _infos(function.value_info, what)
        _graphs(_nodes(function.node, what, set()))
        _attributes(function.attribute_proto, what)
    return names


def _graphs(stack: list[onnx.GraphProto]) -> set[str]:
    names: set[str] = set()
    while stack:
        graph = stack.pop()
        what = f"graph {graph.name!r}"
        _check((graph.name,), "the name of a graph")
        for infos in (graph.input, graph.output, graph.value_info):
            _infos(infos, what)
        names.update(info.name for info in graph.input)
        _tensors(graph.initializer, what)
        _tensors((t for sparse in graph.sparse_initializer for t in (sparse.values, sparse.indices)), what)
        stack += _nodes(graph.node, what, names)
    return names


def _nodes(nodes: Iterable[onnx.NodeProto], what: str, names: set[str]) -> list[onnx.GraphProto]:
    bodies: list[onnx.GraphProto] = []
    for node in nodes:
        outputs = list(node.output)
        _check((node.name, node.op_type, node.domain, node.overload, *node.input, *outputs), f"a node of {what}")
        names.update(outputs)
        if len(node.attribute):
            bodies += _attributes(node.attribute, f"node {node.name!r}")
    return bodies


def _attributes(attributes: Iterable[onnx.AttributeProto], what: str) -> list[onnx.GraphProto]:
    bodies: list[onnx.GraphProto] = []
    for attribute in attributes:
        _check((attribute.name, attribute.ref_attr_name), f"an attribute of {what}")
        if attribute.HasField("g"):
            bodies.append(attribute.g)
        bodies.extend(attribute.graphs)
        if attribute.HasField("t"):
            _tensors([attribute.t], what)
        if attribute.HasField("tp"):
            _type(attribute.tp, what)
    return bodies


def _tensors(tensors: Iterable[onnx.TensorProto], what: str) -> None:
    for tensor in tensors:
        _check((tensor.name,), f"a tensor of {what}")
        for entry in tensor.external_data:
            _check((entry.key, entry.value), f"the external data of tensor '{tensor.name}'")


def _infos(infos: Iterable[onnx.ValueInfoProto], what: str) -> None:
    for info in infos:
        _check((info.name,), f"a value of {what}")
        _type(info.type, f"value '{info.name}'")


def _type(type_: onnx.TypeProto, what: str) -> None:
    while True:
        kind = type_.WhichOneof("value")
        if kind == "tensor_type":
            _check((d.dim_param for d in type_.tensor_type.shape.dim), f"a dim of {what}")
        if kind not in ("sequence_type", "optional_type"):
            return
        type_ = getattr(type_, kind).elem_type


def _check(texts: Iterable[Any], what: str) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise ModelError(f"{what} is called {text!r}, which is not UTF-8 text; the file is damaged")
