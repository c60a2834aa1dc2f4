"""Regions of pointwise operators that can run in one loop over one shape.

A region is found from its end: the node whose result leaves it. Producers are taken in as long as their results have
the region's shape and nobody else looks at them; what is smaller and only broadcast into the region is computed once,
outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autofusion.ir.graph import Node
from autofusion.ir.operators import OpClass, find
from autofusion.ir.types import Shape, TensorType
from autofusion.rules import LIMIT, POINTWISE, FuseRule, Joins, Refusal, Region, backward, is_float_type

_NOT_ARITHMETIC = frozenset({"Identity"})
_LIMIT = 256
"""Most nodes of a region: what is computed in registers costs nothing to have more of."""
_MANY = 8
"""Operands of a node from which on what computes them may be a region of its own."""
_SEARCHED = 256
"""Nodes that are looked at for a path out of a region of several results and back."""


def computable(node: Node) -> bool:
    """True for pointwise operators on numbers and truth values with one result of static shape."""
    schema = find(node.op)
    if schema is None or schema.op_class is not OpClass.POINTWISE or not schema.deterministic:
        return False
    if node.op in _NOT_ARITHMETIC or len(node.outputs) != 1:
        return False
    type_ = node.output.type
    if not isinstance(type_, TensorType) or not type_.is_static or not _is_number(type_):
        return False
    for value in node.inputs:
        if value is not None and not (isinstance(value.type, TensorType) and _is_number(value.type)):
            return False
    return True


def _is_number(type_: TensorType) -> bool:
    return is_float_type(type_.dtype) or type_.dtype.kind in "biu"


def of_shape(shape: Shape | None) -> Callable[[Node], bool]:
    """Which nodes may be part of a region of that shape."""
    return lambda node: node.output.shape == shape and computable(node)


def _region(end: Node) -> Iterator[Region | Refusal]:
    if not computable(end):
        return
    joins = of_shape(end.output.shape)
    consumers = end.output.consumers
    if len(consumers) == 1 and not end.output.is_output and joins(consumers[0]) and len(consumers[0].inputs) < _MANY:
        return  # not an end
    nodes = (*backward(end.inputs, [end], joins, _LIMIT), end)
    wider = _with_siblings(nodes, joins)
    if wider and not _returns(wider):
        yield Region(wider, end, multiple_results=True)
    if len(nodes) > 1:
        yield Region(nodes, end)


def _with_siblings(nodes: tuple[Node, ...], joins: Joins) -> tuple[Node, ...]:
    """The region with whatever else may join that reads the same values or makes an operand; () if nothing does.

    A value joins with its readers only if all of them may join.
    """
    found = dict.fromkeys(nodes)
    queue = list(nodes)
    for node in queue:
        read = [v for v in (*node.inputs, node.output) if v is not None and v.const is None]
        shared = [v for v in read if v.use_count < LIMIT and all(map(joins, v.consumers))]
        near = [v.producer for v in shared if v.producer is not None and joins(v.producer)]
        near += [consumer for v in shared for consumer in v.consumers]
        for other in near:
            if other not in found and len(found) < LIMIT:
                found[other] = None
                queue.append(other)
    results = [node for node in found if node.output.escapes(found)]
    return tuple(found) if len(found) > len(nodes) and len(results) > 1 else ()  # one of one result is its end's


def _returns(nodes: tuple[Node, ...]) -> bool:
    """True if a path may leave the region and come back."""
    inside = set(nodes)
    seen = {c for node in nodes for c in node.output.consumers if c not in inside}
    queue = list(seen)
    for node in queue:
        if len(seen) > _SEARCHED:
            return True
        for consumer in (c for value in node.outputs for c in value.consumers):
            if consumer in inside:
                return True
            if consumer not in seen:
                seen.add(consumer)
                queue.append(consumer)
    return False


REGION = FuseRule(
    "pointwise.region",
    POINTWISE,
    _region,
    root_classes=frozenset({OpClass.POINTWISE}),
    doc="""Run neighbouring pointwise operators in one loop.

    Before: %y = Mul(Sigmoid(Add(%a, %b)), %c)
    After:  %y = Fused(%a, %b, %c) {kind = "pointwise"}
    Any pointwise operators on numbers and truth values; operands may be broadcast into the region. Several results
    where nodes of the region read the same values, or where an intermediate is a graph output.
    Refuses when: an intermediate is used by another sort of operator, or has another shape than the result.
    """,
)

RULES = (REGION,)
