"""Specialise a graph for given input types: bind dims, infer types, fold what has become constant.

With static input shapes every ``Shape -> Gather -> Concat -> Reshape`` chain of a dynamic model turns into
constants, so that rules and kernels only ever see static shapes, and a dynamic model loses no fusion.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

import numpy as np

from autofusion.errors import ShapeError
from autofusion.ir.graph import Graph, Node, Value, copy_node
from autofusion.ir.infer import infer_node
from autofusion.ir.operators import OpClass, op_class
from autofusion.ir.retype import FOLD_BYTES, Evaluate, Trace, may_fold, shape_of
from autofusion.ir.types import TensorType, Type

FOLD_RATIO, FOLD_FREE = 4, 1 << 28
"""All results of folding a graph together may have as many bytes as its constants times the first, or the second."""


class Budget:
    """Bytes that folding may still make: without one, a constant that is concatenated with itself again and again grows
    a file of two kilobytes to terabytes, while every single result is no larger than its operands.
    """

    def __init__(self, graph: Graph) -> None:
        self.left = max(FOLD_RATIO * sum(v.const.nbytes for v in graph.constants() if v.const is not None), FOLD_FREE)

    def spend(self, arrays: Sequence[np.ndarray], operands: Sequence[np.ndarray | None]) -> None:
        """Take what was made off the budget; views of operands cost nothing."""
        for array in arrays:
            if not any(x is not None and np.may_share_memory(array, x) for x in operands):
                self.left -= array.nbytes


def specialise(
    graph: Graph,
    input_types: Mapping[str, Type],
    evaluate: Evaluate,
    unfolded: Collection[str] = (),
    trace: Trace | None = None,
) -> Graph:
    """Return a copy of ``graph`` whose inputs have ``input_types`` (missing ones keep theirs), inferred and folded.

    Operators in ``unfolded`` are left as they are where only contractions read them: rules want to see what factors
    are made from. ``trace`` takes down what was done, so that the copy can be given other sizes.

    Raises ShapeError if the types do not fit the graph.
    """
    new = graph.copy()
    new.sort()
    budget = Budget(new)
    if trace is not None:
        trace.start(new.inputs, budget.left)
    for value in new.inputs:
        value.type = input_types.get(value.name, value.type)
    for node in new.nodes:
        fold(new, node, evaluate, budget, unfolded, trace)
    new.prune()
    new.sort()
    return new


def fold(
    graph: Graph,
    node: Node,
    evaluate: Evaluate,
    budget: Budget,
    unfolded: Collection[str] = (),
    trace: Trace | None = None,
) -> None:
    """Infer the types of ``node``'s results, and replace them by constants where their data is known."""
    if node.op == "If" and _inline_if(graph, node, evaluate, budget, unfolded, trace):
        return
    if node.op in _LOOPS:
        node = _with_constant_captures(graph, node, trace.varying if trace is not None else ())
    stated = [value.type for value in node.outputs]
    infer_node(node, bodies=True, keep_bodies=True)
    if node.op in unfolded and all(
        not value.is_output and all(op_class(user) is OpClass.CONTRACTION for user in value.consumers)
        for value in node.outputs
    ):
        if trace is not None:
            trace.note(node, stated, None, unfolded=True)
        return
    data = _known(node, evaluate, budget)
    constants: list[tuple[int, Value]] = []
    if data is not None:
        for index, (value, array) in enumerate(zip(node.outputs, data, strict=True)):
            if value.use_count:
                constants.append((index, graph.constant(array, value.name)))
                graph.replace_uses(value, constants[-1][1])
    if trace is not None:
        trace.note(node, stated, None if data is None else constants)


_LOOPS = ("Loop", "Scan")


def _with_constant_captures(graph: Graph, node: Node, varying: Container[Value]) -> Node:
    """The node with captures that are constant, for all sizes, as constants of its body, where kernels can see their
    data.
    """
    count, body = int(node.attr("captures", 0)), node.attrs.get("body")
    first = len(node.inputs) - count
    known = {
        i: v.const
        for i, v in enumerate(node.inputs)
        if i >= first and v is not None and v.const is not None and v.const.dtype.kind != "O" and v not in varying
    }
    if not known or not isinstance(body, Graph):
        return node
    inner = body.copy()
    shift = len(inner.inputs) - len(node.inputs)
    for index, data in known.items():
        value = inner.inputs[index + shift]
        inner.replace_uses(value, inner.constant(data, value.name))
    kept = {index + shift for index in known}
    inner.inputs[:] = [value for i, value in enumerate(inner.inputs) if i not in kept]
    attrs = {**node.attrs, "body": inner, "captures": count - len(known)}
    operands = [value for i, value in enumerate(node.inputs) if i not in known]
    types = [value.type for value in node.outputs]
    new = graph.node(node.op, operands, attrs, outputs=types, name=node.name, origin=node.origin)
    for old, value in zip(node.outputs, new.outputs, strict=True):
        value.name = old.name
        graph.replace_uses(old, value)
    graph.remove(node)
    new.name = node.name
    return new


def _known(node: Node, evaluate: Evaluate, budget: Budget) -> Sequence[np.ndarray] | None:
    if not may_fold(node):
        return None
    if node.op in ("Shape", "Size"):
        return shape_of(node)
    made = sum(v.type.nbytes for v in node.outputs if isinstance(v.type, TensorType) and v.type.is_static)
    read = sum(v.const.nbytes for v in set(node.inputs) if v is not None and v.const is not None)
    if made > max(FOLD_BYTES, read) or made > budget.left:
        return None
    operands = [None if v is None else v.const for v in node.inputs]
    results = evaluate(node, operands)
    budget.spend(results, operands)
    return results


def _inline_if(
    graph: Graph, node: Node, evaluate: Evaluate, budget: Budget, unfolded: Collection[str], trace: Trace | None
) -> bool:
    """Replace an If with a constant condition by the branch it takes."""
    condition = node.inputs[0]
    if condition is None or condition.const is None:
        return False
    taken: Graph = node.attrs["then_branch" if bool(np.all(condition.const)) else "else_branch"]
    captures = node.inputs[1:]
    if len(captures) != len(taken.inputs):
        raise ShapeError(f"{node.label}: its branch has {len(taken.inputs)} inputs, but {len(captures)} captures")
    results, made = inline(graph, taken, [c for c in captures if c is not None])
    for value, result in zip(node.outputs, results, strict=True):
        graph.replace_uses(value, result)
    if trace is not None:
        trace.note_branch(condition)
    for inner in made:
        fold(graph, inner, evaluate, budget, unfolded, trace)
    return True


def inline(graph: Graph, body: Graph, operands: Sequence[Value]) -> tuple[list[Value], list[Node]]:
    """Copy ``body`` into ``graph`` with ``operands`` for its inputs; return its result values and the new nodes."""
    values = dict(zip(body.inputs, operands, strict=True))
    made = []
    for node in body.nodes:
        new = copy_node(node, graph, values)
        new.name = graph.unique_node_name(new.name)
        for value in new.outputs:
            value.name = graph.unique_value_name(value.name)
        made.append(new)
    results = []
    for value in body.outputs:
        if value not in values:
            assert value.const is not None, f"output '{value.name}' of graph '{body.name}' is not defined in it"
            values[value] = graph.constant(value.const, value.name)
        results.append(values[value])
    return results, made
