"""Fused nodes for tests, written as functions that build their body."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import of_array


class Body:
    """A graph under construction: `b("Add", x, y, attr=...)` returns the result; arrays and numbers are constants."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.graph = Graph("body")
        self.operands = [self.graph.add_input(f"x{i}", of_array(a)) for i, a in enumerate(arrays)]

    def constant(self, data: object, dtype: object = np.float32) -> Value:
        array = data if isinstance(data, np.ndarray) else np.asarray(data, dtype)
        return self.graph.constant(array)

    def __call__(self, op: str, *inputs: object, outputs: int = 1, **attrs: object):
        values = [x if isinstance(x, Value) or x is None else self.constant(x) for x in inputs]
        node = self.graph.node(op, values, attrs, outputs=outputs)
        return node.output if outputs == 1 else node.outputs


def fused(
    kind: str,
    build: Callable[..., Value | Sequence[Value]],
    arrays: Sequence[np.ndarray],
    constants: Sequence[int] = (),
) -> Node:
    """A graph of one fused node whose body is `build(b, *operands)`; operands in `constants` are constants."""
    body = Body(arrays)
    made = build(body, *body.operands)
    for value in made if isinstance(made, (list, tuple)) else [made]:
        body.graph.add_output(value)
    infer_graph(body.graph)
    graph = Graph()
    values = [
        graph.constant(a, f"c{i}") if i in constants else graph.add_input(f"x{i}", of_array(a))
        for i, a in enumerate(arrays)
    ]
    node = graph.node(
        FUSED,
        values,
        {"kind": kind, "rule": "test", "body": body.graph},
        outputs=[v.type for v in body.graph.outputs],
    )
    for value in node.outputs:
        graph.add_output(value)
    return node
