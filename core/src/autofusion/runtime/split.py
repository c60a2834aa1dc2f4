"""Split a graph at results whose shape only a run can tell.

The head holds every node whose operands are known tensors (or run-time objects that the caller passes in); the
tail is the rest, with the values that cross as its inputs. The head is planned at once, the tail when the crossing
values exist. Both sides fuse.
"""

from __future__ import annotations

from dataclasses import dataclass

from autofusion.ir.graph import Graph, Value, copy_node
from autofusion.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Split:
    """``crossing`` numbers the head's outputs that the tail takes, in the order of the tail's inputs.

    ``outputs`` says for each output of the whole graph whether it comes from the tail, and its number there.
    """

    head: Graph
    tail: Graph | None
    crossing: tuple[int, ...]
    outputs: tuple[tuple[bool, int], ...]


def whole(graph: Graph) -> Split:
    """All of ``graph`` as the head."""
    return Split(graph, None, (), tuple((False, i) for i in range(len(graph.outputs))))


def split(graph: Graph) -> Split:
    """Split ``graph``, inferred and sorted."""
    ready: set[Value] = set(graph.inputs)
    early, late = [], []
    for node in graph.nodes:
        if all(v is None or v.const is not None or v in ready for v in node.inputs):
            early.append(node)
            # A node with one result of unknown size returns all of them as new arrays: none has a place in the plan.
            if all(isinstance(v.type, TensorType) and v.type.is_static for v in node.outputs):
                ready.update(node.outputs)
        else:
            late.append(node)
    if not late:
        return whole(graph)
    head, tail = Graph(graph.name), Graph(f"{graph.name}.tail")
    head_values: dict[Value, Value] = {}
    for value in graph.inputs:
        head_values[value] = head.add_input(value.name, value.type, value.default)
    for node in early:
        copy_node(node, head, head_values)
    tail_values: dict[Value, Value] = {}
    made_late = {v for node in late for v in node.outputs}
    crossing: dict[Value, int] = {}
    for node in late:
        for operand in node.inputs:
            if operand is not None and operand.const is None and operand not in made_late and operand not in crossing:
                crossing[operand] = len(crossing)
                tail_values[operand] = tail.add_input(operand.name, operand.type)
                head.add_output(head_values[operand], operand.name)
    for node in late:
        copy_node(node, tail, tail_values)
    outputs = []
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        if value in made_late:
            outputs.append((True, len(tail.outputs)))
            tail.add_output(tail_values[value], name)
        else:
            outputs.append((False, len(head.outputs)))
            head.add_output(head_values[value] if value.const is None else head.constant(value.const, value.name), name)
    return Split(head, tail, tuple(range(len(crossing))), tuple(outputs))
