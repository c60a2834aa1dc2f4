"""The operator examples that the onnx package ships, as our graphs: a small converter for tests only.

Independent of the ONNX frontend on purpose: core's tests import no plugin.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from autofusion.ir import Graph, OptionalType, SequenceType, TensorType, Type, Value
from autofusion.ir.operators import DTYPE_ATTRIBUTES
from autofusion.ir.operators.control import without_symbols
from autofusion.ir.operators.opaque import constant_value


@dataclass(frozen=True)
class Case:
    """One model with the inputs and outputs of its first data set (each an array, a list of arrays, or None)."""

    name: str
    model: onnx.ModelProto
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def ops(self) -> list[str]:
        return [n.op_type for n in self.model.graph.node]


@cache
def all_cases() -> dict[str, Case]:
    """Every node case of the default domain by name, in the order in which onnx lists them."""
    result = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the examples overflow on purpose
        cases = collect_testcases(None)
    for case in cases:
        if case.data_sets and all(n.domain == "" for n in case.model.graph.node) and not case.model.functions:
            inputs, outputs = case.data_sets[0]
            result[case.name] = Case(case.name, case.model, tuple(inputs), tuple(outputs))
    return result


def type_of(proto: onnx.TypeProto) -> Type | None:
    """Our type for a TypeProto; None if it leaves the element type open."""
    if proto.HasField("sequence_type"):
        # The elements of one sequence may differ in a dim that the model gives a name.
        element = without_symbols(type_of(proto.sequence_type.elem_type))
        return None if element is None else SequenceType(element)
    if proto.HasField("optional_type"):
        element = type_of(proto.optional_type.elem_type)
        return None if element is None else OptionalType(element)
    tensor = proto.tensor_type
    if not tensor.elem_type:
        return None
    dtype = _dtype(tensor.elem_type)
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
    return TensorType(dtype, tuple(dims))


def _dtype(elem_type: int) -> np.dtype:
    return np.dtype(object) if elem_type == onnx.TensorProto.STRING else helper.tensor_dtype_to_np_dtype(elem_type)


def array_of(data: Any) -> np.ndarray:
    """A test tensor as an array with our element types (strings are objects)."""
    if isinstance(data, onnx.TensorProto):
        data = numpy_helper.to_array(data)
    array = np.asarray(data)
    return array.astype(object) if array.dtype.kind in "US" else array


def attributes_of(node: onnx.NodeProto, outer: Mapping[str, Value]) -> tuple[dict[str, Any], list[str]]:
    """Attributes in our form, and the names that the bodies capture."""
    attrs: dict[str, Any] = {}
    bodies = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    captured = sorted({name for body in bodies for name in _free_names(body) if name in outer})
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.name in DTYPE_ATTRIBUTES:
            value = _dtype(value) if value else None
        elif attribute.type == onnx.AttributeProto.GRAPH:
            value = body_of(value, captured, outer)
        elif attribute.type == onnx.AttributeProto.TENSOR:
            value = array_of(value)
        elif attribute.type == onnx.AttributeProto.TYPE_PROTO:
            value = type_of(value)
        elif isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, Sequence) and value and isinstance(value[0], bytes):
            value = [v.decode() for v in value]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            value = list(value)
        attrs[attribute.name] = value
    if captured:
        attrs["captures"] = len(captured)
    return attrs, captured


def _free_names(graph: onnx.GraphProto) -> set[str]:
    defined = {v.name for v in graph.input} | {v.name for v in graph.initializer}
    free: set[str] = set()
    for node in graph.node:
        used = set(node.input)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                used |= _free_names(attribute.g)
        free |= used - defined
        defined |= set(node.output)
    return (free | ({v.name for v in graph.output} - defined)) - {""}


def body_of(proto: onnx.GraphProto, captured: Sequence[str], outer: Mapping[str, Value]) -> Graph:
    """A body graph whose last inputs are the captured values."""
    graph = Graph(proto.name or "body")
    values = {v.name: graph.add_input(v.name, type_of(v.type)) for v in proto.input}
    values |= {name: graph.add_input(name, outer[name].type) for name in captured}
    fill(graph, proto, values)
    return graph


def fill(graph: Graph, proto: onnx.GraphProto, values: dict[str, Value]) -> None:
    """Append the nodes and outputs of ``proto`` to ``graph``; ``values`` holds what is defined already."""
    values |= {t.name: graph.constant(array_of(t), t.name) for t in proto.initializer}
    for node in proto.node:
        attrs, captured = attributes_of(node, values)
        operands = [values[name] if name else None for name in (*node.input, *captured)]
        while operands and operands[-1] is None:
            operands.pop()
        names = list(node.output)
        while names and not names[-1]:
            names.pop()
        made = graph.node(
            node.op_type,
            operands,
            attrs,
            outputs=len(names),
            output_names=[n or f"unused{i}" for i, n in enumerate(names)],
        )
        values |= {n: v for n, v in zip(node.output, made.outputs, strict=False) if n}
        if node.op_type == "Constant":
            values[node.output[0]] = graph.constant(constant_value(made), node.output[0])
    for output in proto.output:
        graph.add_output(values[output.name], output.name)


def graph_of(case: Case, *, constants: bool = False, symbols: bool = False) -> Graph:
    """The case as a graph whose inputs have the static types of the data.

    ``constants`` makes every tensor input a constant; ``symbols`` gives every dim that is not 0 or 1 the symbol of its
    size (``d5``), and makes integer vectors and scalars (shapes, axes, ...) constants.
    """
    graph = Graph(case.name)
    values: dict[str, Value] = {}
    for proto, data in zip(case.model.graph.input, case.inputs, strict=True):
        type_ = type_of(proto.type)
        if isinstance(type_, TensorType) and data is not None:
            array = array_of(data)
            small = array.ndim <= 1 and array.dtype.kind in "iu"
            if constants or (symbols and small):
                values[proto.name] = graph.constant(array, proto.name)
                continue
            dims = tuple(f"d{d}" if symbols and d > 1 else d for d in array.shape)
            type_ = TensorType(array.dtype, dims)
        values[proto.name] = graph.add_input(proto.name, type_)
    fill(graph, case.model.graph, values)
    return graph


def leaves(type_: Type | None, data: Any) -> Iterator[tuple[Type | None, np.ndarray]]:
    """(tensor type, array) pairs of a result and its type; elements of sequences and optionals one by one."""
    if data is None:
        return
    if isinstance(type_, OptionalType):
        yield from leaves(type_.element, data)
    elif isinstance(type_, SequenceType):
        for element in data:
            yield from leaves(type_.element, element)
    elif isinstance(data, list):
        yield type_, np.asarray(None, object)
    else:
        yield type_, array_of(data)
