"""A rule of this pack at work: matched, priced, run, explained."""

from __future__ import annotations

import numpy as np

import autofusion
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.tools import explain

graph = Graph("example")
x = graph.add_input("x", TensorType(np.dtype(np.float32), (64, 4096)))
quarter = graph.node("Div", [x, graph.constant(np.asarray(4, np.float32))], name="quarter", origin=["quarter"])
gate = graph.node("Sigmoid", quarter.outputs, name="gate", origin=["gate"])
result = graph.node("Mul", [quarter.output, gate.output], name="result", origin=["result"])
graph.add_output(result.output, "y")
infer_graph(graph)

session = autofusion.compile(graph, only=["acme"])
data = np.random.default_rng(0).standard_normal((64, 4096), np.float32)
found = session.run({"x": data})["y"]
expected = autofusion.compile(graph, level="off").run({"x": data})["y"]

for record in session.ledger.records:
    print(record.rule, record.verdict.value, record.site, record.kernel, record.before, record.after)
print("\n".join(explain.node(session, "result")))
print("largest difference:", float(np.abs(found - expected).max()))
