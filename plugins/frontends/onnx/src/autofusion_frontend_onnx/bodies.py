"""Graph attributes become body graphs, and what they capture becomes trailing operands of their node."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from autofusion.ir.graph import Graph, Value
from autofusion_frontend_onnx.call import Call


def import_bodies(call: Call) -> list[Value]:
    """Replace the graph attributes by imported bodies; return what they capture, the same operands for each of them."""
    sources = {n: v for n, v in call.attrs.items() if isinstance(v, onnx.GraphProto)}
    for name, value in call.attrs.items():
        if isinstance(value, list) and value and isinstance(value[0], onnx.GraphProto):
            call.fail(f"attribute '{name}' is a list of graphs, which no operator of the IR has")
    if not sources:
        return []
    bodies = {name: call.body(source, name) for name, source in sources.items()}
    captured = list(dict.fromkeys(outside for _, pairs in bodies.values() for outside, _ in pairs))
    for name, (body, pairs) in bodies.items():
        call.attrs[name] = share_captures(body, pairs, captured)
    call.attrs["captures"] = len(captured)
    return captured


def share_captures(body: Graph, pairs: Sequence[tuple[Value, Value]], captured: Sequence[Value]) -> Graph:
    """Make the trailing inputs of ``body`` stand for ``captured``, in that order."""
    own = {outside: inside for outside, inside in pairs}
    explicit = [v for v in body.inputs if v not in set(own.values())]
    last = [own[v] if v in own else body.add_input(v.name, v.type) for v in captured]
    body.inputs[:] = [*explicit, *last]
    return body
