"""Static single assignment and a topological order for the nodes of a source graph.

ONNX demands that nodes come in order; files that break that (but have no cycle) are read all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx

from autofusion.frontends import ModelError


def check_single_assignment(nodes: Sequence[onnx.NodeProto], defined: Iterable[str], graph: str) -> None:
    """Raise ModelError if a value is defined twice."""
    by: dict[str, str] = {name: "an input or initialiser" for name in defined}
    for node in nodes:
        for name in node.output:
            if not name:
                continue
            if name in by:
                raise ModelError(
                    f"graph '{graph}' defines '{name}' twice: by {by[name]}, and by {_label(node)}; "
                    "every value may be defined once"
                )
            by[name] = _label(node)


def in_order(nodes: Sequence[onnx.NodeProto], graph: str) -> Iterator[tuple[int, onnx.NodeProto]]:
    """The nodes with their positions, each after those whose results it reads; raise ModelError on a cycle."""
    maker = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [sorted({maker[n] for n in _reads(node) if n in maker}) for node in nodes]
    if all(not need or need[-1] < index for index, need in enumerate(needs)):
        yield from enumerate(nodes)
        return
    done, visiting = [False] * len(nodes), [False] * len(nodes)
    for root in range(len(nodes)):
        stack = [(root, 0)]
        while stack:
            index, at = stack.pop()
            if done[index]:
                continue
            visiting[index] = True
            for step in range(at, len(needs[index])):
                need = needs[index][step]
                if done[need]:
                    continue
                if visiting[need]:
                    raise ModelError(f"graph '{graph}' has a cycle: {_label(nodes[need])} depends on its own result")
                stack += [(index, step + 1), (need, 0)]
                break
            else:
                done[index], visiting[index] = True, False
                yield index, nodes[index]


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from _free(attribute.g)
        for body in attribute.graphs:
            yield from _free(body)


def _free(body: onnx.GraphProto) -> Iterator[str]:
    own = {info.name for info in body.input} | {t.name for t in body.initializer}
    own |= {name for node in body.node for name in node.output}
    for node in body.node:
        yield from (name for name in _reads(node) if name not in own)
    yield from (info.name for info in body.output if info.name not in own)


def _label(node: onnx.NodeProto) -> str:
    return f"node '{node.name}' ({node.op_type})" if node.name else f"a node {node.op_type}"
