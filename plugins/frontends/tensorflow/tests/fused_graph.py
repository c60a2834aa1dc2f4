"""What is left in a fused graph: Transposes inside it, and arithmetic with one number for each channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from autofusion.ir.graph import FUSED, Graph, Node, Value

_ARITHMETIC = ("Add", "BatchNormalization", "Div", "Mul", "Sub")
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


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
    """Arithmetic with a constant vector along the channels, but for what is done to a graph input before any layer."""
    behind_layer: dict[Value, bool] = {}
    found: list[str] = []
    _walk(graph, [None] * len(graph.inputs), [False] * len(graph.inputs), behind_layer, found)
    return found


def _walk(
    graph: Graph,
    constants: list[np.ndarray | None],
    behind: list[bool],
    behind_layer: dict[Value, bool],
    found: list[str],
) -> None:
    """Visit the nodes in order; ``constants`` and ``behind`` are what is known of the graph's inputs."""
    given = dict(zip(graph.inputs, constants, strict=True))
    behind_layer.update(zip(graph.inputs, behind, strict=True))

    def constant(value: Value) -> np.ndarray | None:
        return value.const if value.const is not None else given.get(value)

    for node in graph.nodes:
        operands = [v for v in node.inputs if v is not None]
        after = node.op in _LAYERS or any(behind_layer.get(v, False) for v in operands)
        if node.op == FUSED:
            flags = [behind_layer.get(v, False) for v in operands]
            _walk(node.body, [constant(v) for v in operands], flags, behind_layer, found)
            after = any(behind_layer[v] for v in node.body.outputs)
        elif node.op in _ARITHMETIC and after:
            vectors = [c for v in operands if (c := constant(v)) is not None]
            if any(c.size > 1 and max(c.shape) == c.size for c in vectors):
                found.append(node.label)
        behind_layer.update(dict.fromkeys(node.outputs, after))
