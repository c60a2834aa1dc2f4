"""In a network: the chain is found, found to pay, run by the pack's own kernel, and the same to the last bit."""

from __future__ import annotations

import numpy as np

import autofusion
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType


def _network(*functions: str) -> Graph:
    graph = Graph("net")
    x = graph.add_input("x", TensorType(np.dtype(np.uint8), (1, 64, 56, 56)))

    def node(op: str, *operands: Value) -> Value:
        return graph.node(op, operands, name=op, origin=[op]).output

    def number(value: float, dtype: type = np.float32) -> Value:
        return graph.constant(np.asarray(value, dtype))

    y = node("DequantizeLinear", x, number(0.05), number(128, np.uint8))
    for function in functions:
        y = node(function, y)
    graph.add_output(node("QuantizeLinear", y, number(0.01), number(3, np.uint8)), "y")
    infer_graph(graph)
    return graph


def test_a_long_chain_is_a_table() -> None:
    # On one thread: how many threads the alternative has decides whether a table pays.
    functions = ("Mish", "Softplus", "Tanh", "Erf")
    session = autofusion.compile(_network(*functions), threads=1)
    (record,) = [r for r in session.ledger.records if r.verdict.value == "fused" and r.kind]
    assert record.rule.startswith("byte-tables.function@")
    assert record.kernel.startswith("byte-tables.look_up@")
    assert record.before is not None and record.after is not None and record.after < record.before
    data = np.arange(64 * 56 * 56, dtype=np.uint32).astype(np.uint8).reshape(1, 64, 56, 56)
    expected = autofusion.compile(_network(*functions), level="off", threads=1, numerics="exact").run({"x": data})["y"]
    assert np.array_equal(session.run({"x": data})["y"], expected)
