"""Specialising a graph: what captures of loops that are constant become, and what is left unfolded on request."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.graph import Graph, Node
from autofusion.ir.specialise import specialise
from autofusion.ir.types import TensorType
from autofusion.ir.verify import verify

F32 = np.dtype(np.float32)


def gathered(node: Node, inputs):
    assert node.op in ("Gather", "DequantizeLinear")
    return [np.take(inputs[0], inputs[1], axis=0)] if node.op == "Gather" else [inputs[0] * inputs[1]]


@pytest.mark.parametrize("op", ["Scan", "Loop"])
def test_constant_captures_are_constants_of_the_body(op):
    body = Graph("body")
    leading = []
    if op == "Loop":
        leading = [body.add_input(n, TensorType(np.dtype(t), ())) for n, t in (("n", np.int64), ("going", np.bool_))]
    leading.append(body.add_input("state", TensorType(F32, (2,))))
    if op == "Scan":
        body.add_input("row", TensorType(F32, (2,)))
    first, second = (body.add_input(n, TensorType(F32, (2,))) for n in ("factor", "other"))
    state = body.node("Add", [body.node("Mul", [leading[-1], first]).output, second]).output
    for value in [leading[1], state] if op == "Loop" else [state]:
        body.add_output(value)
    graph = Graph()
    x, rows = graph.add_input("x", TensorType(F32, (2,))), graph.add_input("rows", TensorType(F32, (3, 2)))
    table = graph.constant(np.array([[1, 2], [3, 4]], np.float32))
    factor = graph.node("Gather", [table, graph.constant(np.int64(1))], {"axis": 0}).output
    captured = [factor, x]
    if op == "Loop":
        node = graph.node("Loop", [graph.constant(np.int64(3)), None, x, *captured], {"body": body, "captures": 2})
    else:
        attrs = {"body": body, "captures": 2, "num_scan_inputs": 1}
        node = graph.node("Scan", [x, rows, *captured], attrs)
    node.output.name = "y"
    graph.add_output(node.output)
    new = specialise(graph, {}, gathered)
    verify(new)
    (found,) = (n for n in new.nodes if n.op == op)
    inner = found.attrs["body"]
    assert found.attrs["captures"] == 1 and found.inputs[-1] is new.inputs[0] and found.name == node.name
    assert [v.name for v in inner.inputs][-1] == "other" and "factor" not in [v.name for v in inner.inputs]
    (product,) = (n for n in inner.nodes if n.op == "Mul")
    np.testing.assert_array_equal(product.inputs[1].const, [3, 4])
    assert body.inputs[-2] is first and first.use_count  # the graph that was given stays as it was


def test_what_only_contractions_read_may_stay_unfolded():
    graph = Graph()
    x = graph.add_input("x", TensorType(F32, (2, 2)))
    w, s = graph.constant(np.ones((2, 2), np.int8)), graph.constant(np.float32(0.5))
    alone, shared = (graph.node("DequantizeLinear", [w, s]).output for _ in range(2))
    for value in (graph.node("MatMul", [x, alone]), graph.node("MatMul", [x, shared]), graph.node("Add", [x, shared])):
        graph.add_output(value.output)
    for unfolded, left in ((), 0), (("DequantizeLinear",), 1):
        new = specialise(graph, {}, gathered, unfolded)
        assert [n.op for n in new.nodes].count("DequantizeLinear") == left
