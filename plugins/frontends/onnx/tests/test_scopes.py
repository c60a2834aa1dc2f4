"""Bodies of control flow with what they capture, and functions written out in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from autofusion.errors import ModelError
from plugins.frontends.onnx.tests.onnx_models import assert_same, check_against_ort, load, model, ort, run

F = TensorProto.FLOAT


def node(op: str, inputs: list[str], outputs: list[str], name: str = "", **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name, **attrs)


def body(
    nodes: list[onnx.NodeProto], inputs: list[tuple[str, int]], outputs: list[str], **constants: np.ndarray
) -> onnx.GraphProto:
    return helper.make_graph(
        nodes,
        "body",
        [helper.make_tensor_value_info(n, t, None if t == F else []) for n, t in inputs],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )


X = {"x": np.float32([[1, -2, 3]]), "c": np.array(True)}


@pytest.mark.parametrize("condition", [True, False])
def test_branches_share_their_captures(condition: bool) -> None:
    inputs = {"x": X["x"], "z": X["x"] * 3, "c": np.array(condition)}
    nodes = [
        node("Relu", ["x"], ["h"]),
        node(
            "If",
            ["c"],
            ["y"],
            then_branch=body([node("Add", ["h", "k"], ["t"])], [], ["t"], k=np.float32([10])),
            else_branch=body([node("Sub", ["z", "h"], ["e"]), node("Mul", ["e", "w"], ["e2"])], [], ["e2"]),
        ),
    ]
    source = model(nodes, inputs, ["y"], constants={"w": np.float32([2])})
    graph = check_against_ort(source, inputs)
    branch = graph.nodes[1]
    assert [v.name for v in branch.inputs] == ["c", "z", "h"] and branch.attrs["captures"] == 2
    for name in ("then_branch", "else_branch"):
        assert [v.name for v in branch.attrs[name].inputs] == ["z", "h"]
    assert branch.attrs["else_branch"].nodes[1].inputs[1].is_constant


def test_branch_that_returns_what_it_captures_or_a_constant() -> None:
    nodes = [
        node("Relu", ["x"], ["h"]),
        node("If", ["c"], ["y", "z"], then_branch=body([], [], ["h", "x"]), else_branch=body([], [], ["w", "h"])),
    ]
    source = model(nodes, X, ["y", "z"], constants={"w": np.float32([[7, 7, 7]])})
    assert_same(run(load(source), X), [np.maximum(X["x"], 0), X["x"]])
    assert_same(run(load(source), X | {"c": np.array(False)}), [np.float32([[7, 7, 7]]), np.maximum(X["x"], 0)])


def test_captures_through_several_levels() -> None:
    inner = body([node("Mul", ["far", "i_f"], ["p"])], [], ["p"])
    other = body([node("Neg", ["near"], ["q"])], [], ["q"])
    loop = body(
        [
            node("Cast", ["i"], ["i_f"], to=F),
            node("Add", ["carried", "far"], ["near"]),
            node("If", ["flag"], ["r"], then_branch=inner, else_branch=other),
            node("Add", ["r", "near"], ["next"]),
            node("Identity", ["go"], ["on"]),
        ],
        [("i", TensorProto.INT64), ("go", TensorProto.BOOL), ("carried", F)],
        ["on", "next", "r"],
    )
    nodes = [node("Relu", ["x"], ["far"]), node("Loop", ["n", "", "x"], ["y", "all"], body=loop)]
    for flag in (True, False):
        inputs = {"x": X["x"], "flag": np.array(flag)}
        graph = check_against_ort(model(nodes, inputs, ["y", "all"], constants={"n": np.int64(3)}), inputs)
        outer = graph.nodes[1]
        # Operands, then captures: the carried value, then what the body and the bodies in it need.
        assert [v.name if v else None for v in outer.inputs] == ["n", None, "x", "far", "flag"]
        assert outer.attrs["captures"] == 2


def test_overridable_default_is_captured_and_not_copied() -> None:
    branches = {"then_branch": body([node("Add", ["x", "w"], ["t"])], [], ["t"]), "else_branch": body([], [], ["x"])}
    inputs = X | {"w": np.float32([5])}
    source = model([node("If", ["c"], ["y"], **branches)], inputs, ["y"], constants={"w": np.float32([1])})
    graph = load(source)
    assert "w" in [v.name for v in graph.nodes[0].inputs]
    assert_same(run(graph, X), [X["x"] + 1])
    assert_same(run(graph, inputs), [X["x"] + 5])


def test_loop_whose_counter_is_a_vector_and_whose_stated_sizes_are_stale() -> None:
    """The counter's rank shows in the result: a row is gathered for a scalar, a matrix for a vector of one."""
    stale = [("i", TensorProto.INT64, [1]), ("go", TensorProto.BOOL, [1]), ("a", F, [1, 3])]
    step = helper.make_graph(
        [
            node("Gather", ["x", "i"], ["row"]),
            node("Add", ["a", "row"], ["b"]),
            node("Identity", ["go"], ["on"]),
        ],
        "step",
        [helper.make_tensor_value_info(*s) for s in stale],
        [onnx.ValueInfoProto(name=n) for n in ("on", "b", "row")],
    )
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    constants = {"n": np.int64([2]), "t": np.array([True])}
    source = model(
        [node("Loop", ["n", "t", "x"], ["y", "rows"], body=step)], inputs, ["y", "rows"], constants=constants
    )
    graph = check_against_ort(source, inputs)
    assert run(graph, inputs)[1].shape == (2, 1, 3)


def test_scan_with_captures() -> None:
    step = body([node("Add", ["s", "t"], ["s1"]), node("Mul", ["s1", "k"], ["o"])], [("s", F), ("t", F)], ["s1", "o"])
    inputs = {"s0": np.float32([0, 0]), "seq": np.float32([[1, 2], [3, 4], [5, 6]]), "k": np.float32([10, 100])}
    source = model([node("Scan", ["s0", "seq"], ["s", "y"], body=step, num_scan_inputs=1)], inputs, ["s", "y"])
    check_against_ort(source, inputs)


def test_contradiction_in_a_branch_that_is_not_taken() -> None:
    """Exporters write both branches of a squeeze whose axis is known to be no 1: that must load."""
    squeeze = body([node("Squeeze", ["x", "a"], ["t"])], [], ["t"])
    nodes = [node("If", ["c"], ["y"], then_branch=squeeze, else_branch=body([node("Neg", ["x"], ["e"])], [], ["e"]))]
    inputs = {"x": X["x"], "c": np.array(False)}
    graph = load(model(nodes, inputs, ["y"], constants={"a": np.int64([1])}))
    assert_same(run(graph, inputs), [-X["x"]])


def function(name: str, inputs: list[str], outputs: list[str], nodes: list[onnx.NodeProto], **more: Any) -> Any:
    imports = [helper.make_opsetid("", more.pop("opset", 17)), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, inputs, outputs, nodes, imports, **more)


def reference_to(made: onnx.NodeProto, name: str, kind: int, source: str) -> onnx.NodeProto:
    made.attribute.append(onnx.AttributeProto(name=name, type=kind, ref_attr_name=source))
    return made


def test_functions_with_attributes_and_defaults() -> None:
    leaky = reference_to(node("LeakyRelu", ["a"], ["b"], "inner"), "alpha", onnx.AttributeProto.FLOAT, "slope")
    add = reference_to(node("Constant", [], ["k"]), "value_float", onnx.AttributeProto.FLOAT, "shift")
    f = function(
        "Shifted",
        ["a"],
        ["c"],
        [leaky, add, node("Add", ["b", "k"], ["c"])],
        attributes=["slope"],
        attribute_protos=[helper.make_attribute("shift", 1.0)],
    )
    nodes = [
        node("Shifted", ["x"], ["h"], "first", domain="local", slope=0.5),
        node("Shifted", ["h"], ["y"], "second", domain="local", slope=0.1, shift=-2.0),
    ]
    source = model(nodes, {"x": X["x"]}, ["y"], functions=[f], domains={"local": 1})
    graph = check_against_ort(source, {"x": X["x"]})
    assert [n.origin for n in graph.nodes] == [("first/inner",), ("first/c",), ("second/inner",), ("second/c",)]
    assert [n.output.name for n in graph.nodes] == ["first/b", "h", "second/b", "y"]


def test_nested_functions_with_an_older_operator_set_inside() -> None:
    inner = function("Inner", ["a"], ["b"], [node("Squeeze", ["a"], ["b"], axes=[0])], opset=11)
    outer = function(
        "Outer", ["p", "q"], ["r"], [node("Inner", ["p"], ["s"], domain="local"), node("Add", ["s", "q"], ["r"])]
    )
    nodes = [node("Outer", ["x", "z"], ["y"], "call", domain="local")]
    inputs = {"x": X["x"], "z": np.float32([1, 1, 1])}
    source = model(nodes, inputs, ["y"], functions=[outer, inner], domains={"local": 1})
    assert_same(run(load(source), inputs), [X["x"][0] + 1])


def test_absent_operand_of_a_function() -> None:
    f = function("MaybeClip", ["a", "low", "high"], ["b"], [node("Clip", ["a", "low", "high"], ["b"])])
    nodes = [node("MaybeClip", ["x", "", "m"], ["y"], domain="local"), node("MaybeClip", ["x"], ["z"], domain="local")]
    inputs = {"x": X["x"]}
    source = model(nodes, inputs, ["y", "z"], functions=[f], domains={"local": 1}, constants={"m": np.float32(2)})
    assert_same(run(load(source), inputs), [np.minimum(X["x"], 2), X["x"]])


def test_function_with_control_flow_inside() -> None:
    then = body([node("Mul", ["a", "a"], ["t"])], [], ["t"])
    f = function(
        "Maybe",
        ["a", "c"],
        ["r"],
        [node("If", ["c"], ["r"], then_branch=then, else_branch=body([node("Neg", ["a"], ["e"])], [], ["e"]))],
    )
    source = model([node("Maybe", ["x", "c"], ["y"], domain="local")], X, ["y"], functions=[f], domains={"local": 1})
    assert_same(run(load(source), X), ort(source, X))


def test_function_called_in_a_body_that_captures() -> None:
    f = function("Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])])
    then = body([node("Twice", ["x"], ["t"], domain="local")], [], ["t"])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=body([node("Neg", ["x"], ["e"])], [], ["e"]))]
    source = model(nodes, X, ["y"], functions=[f], domains={"local": 1})
    assert_same(run(load(source), X), [X["x"] * 2])


def test_recursive_functions_are_refused() -> None:
    f = function("F", ["a"], ["b"], [node("G", ["a"], ["b"], domain="local")])
    g = function("G", ["a"], ["b"], [node("F", ["a"], ["b"], domain="local")])
    source = model([node("F", ["x"], ["y"], domain="local")], X, ["y"], functions=[f, g], domains={"local": 1})
    with pytest.raises(ModelError, match=r"'F'.*calls itself: F -> G -> F"):
        load(source)


def test_functions_that_multiply_are_refused_before_they_fill_the_memory() -> None:
    functions = [function("F0", ["a"], ["b"], [node("Relu", ["a"], ["b"])])]
    for i in range(1, 40):
        calls = [node(f"F{i - 1}", ["a"], ["t"], domain="local"), node(f"F{i - 1}", ["t"], ["b"], domain="local")]
        functions.append(function(f"F{i}", ["a"], ["b"], calls))
    source = model([node("F39", ["x"], ["y"], domain="local")], X, ["y"], functions=functions, domains={"local": 1})
    with pytest.raises(ModelError, match="nodes once its functions are written out"):
        load(source)
