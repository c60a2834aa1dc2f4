"""The verifier finds every broken invariant and says where."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autofusion.errors import GraphError
from autofusion.ir import Graph, Node, TensorType, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.verify import verify

F32 = np.dtype(np.float32)


def f32(*dims: int | str | None) -> TensorType:
    return TensorType(F32, dims)


def chain() -> Graph:
    """x -> Relu 'a' -> Add 'b' with a constant -> y."""
    graph = Graph("g")
    x = graph.add_input("x", f32(2, 3))
    a = graph.node("Relu", [x], name="a")
    b = graph.node("Add", [a.output, graph.constant(np.ones(3, np.float32), "k")], name="b")
    graph.add_output(b.output, "y")
    infer_graph(graph)
    return graph


def named(graph: Graph, name: str) -> Node:
    return next(n for n in graph.nodes if n.name == name)


def test_a_sound_graph_passes() -> None:
    graph = chain()
    verify(graph)
    verify(graph.copy())
    verify(Graph("empty"))


def _out_of_order(g: Graph) -> None:
    first = named(g, "a")
    late = g.node("Exp", [g.inputs[0]], name="late")
    first.set_input(0, late.output)


def _forgotten_use(g: Graph) -> None:
    named(g, "b").inputs[0]._uses.clear()  # type: ignore[union-attr]


def _stale_use(g: Graph) -> None:
    g.inputs[0]._uses[(named(g, "b"), 0)] = None


def _use_past_the_end(g: Graph) -> None:
    g.inputs[0]._uses[(named(g, "b"), 7)] = None


def _foreign_operand(g: Graph) -> None:
    named(g, "b").set_input(0, chain().nodes[0].output)


def _removed_operand(g: Graph) -> None:
    dead = g.node("Exp", [g.inputs[0]], name="dead")
    g.remove(dead)
    named(g, "b").set_input(0, dead.output)


def _foreign_input(g: Graph) -> None:
    named(g, "a").set_input(0, Value("alien", f32(2, 3)))


def _shared_constant(g: Graph) -> None:
    other = Graph("other")
    other.node("Neg", [g.constants()[0]], name="thief")


def _foreign_node(g: Graph) -> None:
    named(g, "a").graph = Graph("elsewhere")


def _wrong_producer(g: Graph) -> None:
    named(g, "a").output.producer = named(g, "b")


def _wrong_index(g: Graph) -> None:
    named(g, "a").output.index = 1


def _unknown_output(g: Graph) -> None:
    g.add_output(Value("lost", f32(1)), "z")


def _output_count(g: Graph) -> None:
    g.outputs[0]._graph_outputs = 0


def _phantom_output(g: Graph) -> None:
    named(g, "a").output._graph_outputs = 1


def _output_names(g: Graph) -> None:
    g.output_names.append("more")


def _same_output_name(g: Graph) -> None:
    g.add_output(g.inputs[0], "y")


def _same_node_name(g: Graph) -> None:
    named(g, "b").name = "a"


def _same_value_name(g: Graph) -> None:
    named(g, "b").output.name = "x"


def _same_input_name(g: Graph) -> None:
    g.add_input("z", f32(1)).name = "x"


def _constant_input(g: Graph) -> None:
    g.inputs[0].const = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_out_of_order, r"Relu 'a': operand 0 'late' is computed later, by Exp 'late'; call sort\(\)"),
        (_forgotten_use, "Add 'b' has operand 0 'a', which does not list that use"),
        (_stale_use, "'x' lists Add 'b' as a user, but is not its operand 0"),
        (_use_past_the_end, "'x' lists Add 'b' as a user, but is not its operand 7"),
        (_foreign_operand, "Add 'b': operand 0 'a' is computed by Relu 'a', which is not in graph 'g'"),
        (_removed_operand, "Add 'b': operand 0 'dead' is computed by Exp 'dead', which is not in graph 'g'"),
        (_foreign_input, "Relu 'a': operand 0 'alien' is neither a constant nor an input of graph 'g'"),
        (_shared_constant, "'k' of graph 'g' is used by Neg 'thief' of graph 'other'"),
        (_foreign_node, "Relu 'a' is listed in graph 'g', but belongs to graph 'elsewhere'"),
        (_wrong_producer, "Relu 'a': result 0 'a' must have this node as its producer"),
        (_wrong_index, "Relu 'a': result 0 'a' must have this node as its producer .* and index 1"),
        (_unknown_output, "graph 'g': output 'z' 'lost' is neither a constant nor an input of graph 'g'"),
        (_output_count, "graph 'g': 'b' says that it is 0 graph outputs, found 1"),
        (_phantom_output, "graph 'g': 'a' says that it is 1 graph outputs, found 0"),
        (_output_names, "graph 'g' has 1 outputs, but 2 output names"),
        (_same_output_name, "graph 'g': output name 'y' is not unique"),
        (_same_node_name, "graph 'g': node name 'a' is not unique"),
        (_same_value_name, "graph 'g': value name 'x' is not unique"),
        (_same_input_name, "graph 'g': input name 'x' is not unique"),
        (_constant_input, "graph 'g': input 'x' must be no constant and have no producer"),
    ],
)
def test_structure(damage: Callable[[Graph], None], message: str) -> None:
    graph = chain()
    damage(graph)
    with pytest.raises(GraphError, match=message):
        verify(graph, types=False)


# ---- operators and types -----------------------------------------------------------------------------------


def single(op: str, operands: list[TensorType], attrs: dict[str, Any], outputs: int = 1) -> Graph:
    graph = Graph("g")
    values: list[Value | None] = [graph.add_input(f"x{i}", t) for i, t in enumerate(operands)]
    node = graph.node(op, values, attrs, outputs=outputs, name="n")
    graph.add_output(node.output)
    return graph


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "message"),
    [
        ("Add", [f32(1)], {}, "Add 'n': expected 2 operands, found 1"),
        ("Softmax", [f32(1)], {"axes": 0}, "Softmax 'n': 'Softmax' has no attribute 'axes'; did you mean 'axis'"),
        ("Softmax", [f32(1)], {"axis": "last"}, "attribute 'axis' must be an integer, found 'last'"),
        ("Softmax", [f32(1)], {"axis": 0.5}, "attribute 'axis' must be an integer, found 0.5"),
        ("LeakyRelu", [f32(1)], {"alpha": "a"}, "attribute 'alpha' must be a number, found 'a'"),
        ("Gelu", [f32(1)], {"approximate": 1}, "attribute 'approximate' must be a string, found 1"),
        ("Cast", [f32(1)], {"to": 1}, "attribute 'to' must be an element type, found 1"),
        ("Cast", [f32(1)], {}, "Cast 'n' must state attribute 'to'"),
        ("If", [f32()], {"then_branch": 1, "else_branch": 2}, "attribute 'then_branch' must be a graph, found 1"),
        ("Concat", [f32(2, 3), f32(3, 2)], {"axis": 0}, "dims of operands beside axis 0 must be equal, found 3 and 2"),
        ("Fused", [f32(1)], {"kind": "k", "rule": "r"}, "attribute 'body' must be a Graph, found None"),
        ("Fused", [f32(1)], {"kind": 1, "rule": "r"}, "attribute 'kind' must be a str, found 1"),
    ],
)
def test_operators(op: str, operands: list[TensorType], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(single(op, operands, attrs))


def test_types_must_agree_with_inference() -> None:
    graph = chain()
    named(graph, "a").output.type = f32(2, 4)
    with pytest.raises(GraphError, match=r"Relu 'a': result 'a' has type f32\[2, 4\], but inference says f32\[2, 3\]"):
        verify(graph)
    verify(graph, types=False)


def test_unknown_types_and_operators_are_legal() -> None:
    graph = chain()
    for value in graph.values():
        value.type = None
    verify(graph)
    verify(single("my::Thing", [f32(1)], {"anything": [1, "a"]}))


def test_the_type_of_a_constant_is_that_of_its_data() -> None:
    graph = chain()
    graph.constants()[0].type = f32(4)
    with pytest.raises(GraphError, match=r"constant 'k' has type f32\[4\], but its data is f32\[3\]"):
        verify(graph)


# ---- bodies ------------------------------------------------------------------------------------------------


def fused(body: Graph, outputs: int = 1) -> Graph:
    graph = Graph("g")
    x = graph.add_input("x", f32(2, 3))
    node = graph.node("Fused", [x], {"kind": "pointwise", "rule": "r@1", "body": body}, outputs=outputs, name="f")
    node.output.type = f32(2, 3)
    graph.add_output(node.output)
    return graph


def relu_body(type_: TensorType | None = None) -> Graph:
    body = Graph("body")
    body.add_output(body.node("Relu", [body.add_input("x", type_ or f32(2, 3))], name="r").output)
    infer_graph(body)
    return body


def test_fused_bodies() -> None:
    verify(fused(relu_body()))
    verify(fused(relu_body(f32("N", 3))))
    with pytest.raises(GraphError, match=r"Fused 'f': input 'x' of 'body' has type f32\[2, 4\], but the operand says"):
        verify(fused(relu_body(f32(2, 4))))
    with pytest.raises(GraphError, match="Fused 'f': its body must have 2 outputs, found 1"):
        verify(fused(relu_body(), outputs=2))
    wide = relu_body()
    wide.add_input("extra", f32(1))
    with pytest.raises(GraphError, match="Fused 'f': 'body' must have 1 inputs, found 2"):
        verify(fused(wide))
    wrong = fused(relu_body())
    wrong.nodes[0].output.type = f32(2, 9)
    with pytest.raises(GraphError, match=r"'f' has type f32\[2, 9\], but the output of the body says f32\[2, 3\]"):
        verify(wrong)


def test_what_is_wrong_inside_a_body_is_found_and_named() -> None:
    body = relu_body()
    body.nodes[0].attrs["alpha"] = 1.0
    with pytest.raises(GraphError, match="in 'body' of Fused 'f': Relu 'r': 'Relu' has no attribute 'alpha'"):
        verify(fused(body))
    leaking = relu_body()
    graph = fused(leaking)
    leaking.nodes[0].set_input(0, graph.inputs[0])
    with pytest.raises(GraphError, match="'x' of graph 'g' is used by Relu 'r' of graph 'body'"):
        verify(graph)


def test_a_body_may_give_one_value_twice() -> None:
    body = relu_body()
    body.add_output(body.outputs[0])
    assert len(set(body.output_names)) == 1
    graph = fused(body, outputs=2)
    verify(graph)


def test_control_flow_bodies() -> None:
    graph = Graph("g")
    condition = graph.add_input("c", TensorType(np.dtype(bool), ()))
    x = graph.add_input("x", f32(2, 3))
    attrs = {"then_branch": relu_body(), "else_branch": relu_body(), "captures": 1}
    node = graph.node("If", [condition, x], attrs, name="i")
    verify(graph)
    node.attrs["captures"] = 0
    with pytest.raises(GraphError, match="If 'i': 'then_branch' must have 0 inputs, found 1"):
        verify(graph)


def test_large_graphs_are_quick_to_check() -> None:
    graph = Graph("big")
    value = graph.add_input("x", f32(1, 16))
    for _ in range(16_000):
        value = graph.node("Add", [value, graph.constant(np.float32(1))]).output
    graph.add_output(value)
    start = time.perf_counter()
    verify(graph, types=False)
    assert time.perf_counter() - start < 1
