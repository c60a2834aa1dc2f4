"""What is left in a fused graph: Transposes inside it, and arithmetic with one number for each channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autofusion.ir.graph import FUSED, Graph, Node, Value

_ARITHMETIC = ("Add", "BatchNormalization", "Div", "Mul", "Sub")
_NEAR = ("Add", "Cast", "Clip", "Div", "Identity", "Mul", "Pad", "Reshape", "Softmax", "Sub")


def nodes_with_bodies(graph: Graph) -> Iterator[Node]:
    """Every node, and those inside fused nodes in place of these."""
    for node in graph.nodes:
        if node.op == FUSED:
            yield from nodes_with_bodies(node.body)
        else:
            yield node


def site_kinds(graph: Graph) -> Counter[str]:
    """How many fused sites of each kind there are."""
    return Counter(str(node.attrs["kind"]) for node in graph.nodes if node.op == FUSED)


def transposes_apart(graph: Graph) -> list[str]:
    """Transposes beyond one for each input and output of the graph."""
    found = [node.label for node in nodes_with_bodies(graph) if node.op == "Transpose"]
    return found[len(graph.inputs) + len(graph.outputs) :]


def channel_arithmetic(graph: Graph) -> list[str]:
    """Arithmetic with a constant vector along the channels, but for what only a graph input goes through."""
    found = []
    for node in nodes_with_bodies(graph):
        if node.op not in _ARITHMETIC:
            continue
        if any(v is not None and v.const is not None and _is_vector(v) for v in node.inputs):
            found.append(node.label)
    return [label for label in found if not _of_input(graph, label)]


def _is_vector(value: Value) -> bool:
    assert value.const is not None
    return value.const.size > 1 and max(value.const.shape) == value.const.size


def _of_input(graph: Graph, label: str) -> bool:
    """True if the labelled node only processes a graph input, before any convolution or product."""
    inner = {node.label: node for node in nodes_with_bodies(graph)}
    stack, seen = [inner[label]], set()
    outer = {value: node for node in graph.nodes for value in node.outputs}
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            return False
        owner = next((n for n in graph.nodes if n is node or (n.op == FUSED and node in n.body)), None)
        for value in node.inputs:
            if value is None or value.const is not None:
                continue
            producer = value.producer
            if producer is None and owner is not None and owner is not node:
                place = owner.body.inputs.index(value)
                given = owner.inputs[place]
                producer = outer.get(given) if given is not None else None
                if producer is not None and producer.op == FUSED:
                    stack.extend(producer.body.nodes)
                    continue
            elif producer is not None and producer.op == FUSED:
                stack.extend(producer.body.nodes)
                continue
            if producer is not None:
                stack.append(producer)
    return True
