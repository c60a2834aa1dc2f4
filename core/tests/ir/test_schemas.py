"""The schemas state what the operator set states: operators, counts, attributes and their defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from autofusion.errors import GraphError, PluginError, ShapeError
from autofusion.ir import Graph, TensorType
from autofusion.ir import operators as ops
from autofusion.ir.infer import infer_node
from autofusion.ir.operators import OpClass, Operator, attribute, pointwise

F32 = np.dtype(np.float32)
ENDLESS = 2**31 - 1


def _newest() -> dict[str, Any]:
    """The onnx schema of every operator that is current at our version."""
    newest: dict[str, Any] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= ops.OPSET:
            known = newest.get(schema.name)
            if known is None or known.since_version < schema.since_version:
                newest[schema.name] = schema
    return {name: s for name, s in newest.items() if not s.deprecated}


NEWEST = _newest()


@pytest.mark.parametrize("name", sorted(NEWEST))
def test_counts_and_attributes_are_those_of_the_operator_set(name: str) -> None:
    expected, found = NEWEST[name], ops.find(name)
    assert found is not None
    inputs = (expected.min_input, None if expected.max_input == ENDLESS else expected.max_input)
    if name == "If":
        inputs = (1, None)  # captures are operands here
    assert found.input_range == inputs
    assert found.output_range == (
        expected.min_output,
        None if expected.max_output == ENDLESS else expected.max_output,
    )
    own = {"captures"} if found.subgraphs else set()
    assert set(found.attributes) - own == set(expected.attributes)
    for key, proto in expected.attributes.items():
        assert found.attributes[key] == _default(key, proto), key


def _default(name: str, proto: Any) -> Any:
    if not proto.default_value.name:
        return ops.REQUIRED if proto.required else None
    value = helper.get_attribute_value(proto.default_value)
    if name in ops.DTYPE_ATTRIBUTES:
        return helper.tensor_dtype_to_np_dtype(value) if value else None
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value


def test_later_operators_of_the_default_domain_have_schemas_too() -> None:
    later = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and not s.deprecated}
    gone = {"Upsample", "Scatter"}
    assert sorted(later - gone - set(ops.known_names())) == []


def test_pointwise_sets_are_the_operators_of_that_class() -> None:
    by_class = {n for n in ops.known_names() if (o := ops.find(n)) and o.op_class is OpClass.POINTWISE}
    assert by_class == pointwise.POINTWISE
    either_way = ops.names(lambda schema: schema.commutative)
    assert set(either_way) <= pointwise.BINARY | pointwise.VARIADIC
    assert either_way == (
        *("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal"),
        *("Max", "Mean", "Min", "Mul", "Or", "Sum", "Xor"),
    )
    for name in pointwise.UNARY | pointwise.BINARY | pointwise.TERNARY:
        operator = ops.find(name)
        assert operator is not None
        arity = 1 if name in pointwise.UNARY else 2 if name in pointwise.BINARY else 3
        assert operator.max_inputs == arity, name


def test_views_do_no_work() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(F32, (2, 3, 1)))
    axes = graph.constant(np.array([2]))
    operands = {"Reshape": [x, graph.constant(np.array([6]))], "Squeeze": [x, axes], "Unsqueeze": [x, axes]}
    views = ops.names(lambda schema: schema.view)
    assert views == ("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
    for name in set(views) - {"Dropout"}:  # whose mask is made
        node = graph.node(name, operands.get(name, [x]))
        infer_node(node)
        assert ops.work(node) == ops.Work(), name


def test_a_name_has_one_schema() -> None:
    def infer(node: object) -> list[None]:
        return [None]

    with pytest.raises(PluginError, match="'Relu' already has another schema"):
        ops.register(Operator("Relu", OpClass.POINTWISE, infer))  # type: ignore[arg-type]


def test_attribute_falls_back_to_the_default_and_names_what_it_does_not_know() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(F32, (1,)))
    leaky = graph.node("LeakyRelu", [x], name="l")
    assert attribute(leaky, "alpha") == np.float32(0.01)
    with pytest.raises(GraphError, match="'LeakyRelu' has no attribute 'alhpa'; did you mean 'alpha'"):
        attribute(leaky, "alhpa")
    with pytest.raises(GraphError, match="Concat 'c' must state attribute 'axis'"):
        attribute(graph.node("Concat", [x], name="c"), "axis")
    with pytest.raises(GraphError, match="no schema"):
        attribute(graph.node("my::Thing", [x]), "axis")


def test_wrong_number_of_operands_is_a_shape_error() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(F32, (1,)))
    with pytest.raises(ShapeError, match="Add 'Add': expected 2 operands, found 1"):
        infer_node(graph.node("Add", [x]))
    with pytest.raises(ShapeError, match="Relu 'r': expected 1 results, found 2"):
        infer_node(graph.node("Relu", [x], outputs=2, name="r"))
    with pytest.raises(ShapeError, match="Clip 'k': expected 1 to 3 operands, found 4"):
        infer_node(graph.node("Clip", [x, x, x, x], name="k"))
