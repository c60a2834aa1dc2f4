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
from autofusion.rules import POINTWISE, FuseRule, Refusal, Region, backward, is_float_type

_NOT_ARITHMETIC = frozenset({"Identity"})


def computable(node: Node) -> bool:
    """True for pointwise operators on floating-point numbers and truth values with one result of static shape."""
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
    return is_float_type(type_.dtype) or type_.dtype.kind == "b"


def of_shape(shape: Shape | None) -> Callable[[Node], bool]:
    """Which nodes may be part of a region of that shape."""
    return lambda node: node.output.shape == shape and computable(node)


def _region(end: Node) -> Iterator[Region | Refusal]:
    if not computable(end):
        return
    joins = of_shape(end.output.shape)
    consumers = end.output.consumers
    if len(consumers) == 1 and not end.output.is_output and joins(consumers[0]):
        return  # not an end
    nodes = backward(end.inputs, [end], joins)
    if nodes:
        yield Region((*nodes, end), end)


REGION = FuseRule(
    "pointwise.region",
    POINTWISE,
    _region,
    root_classes=frozenset({OpClass.POINTWISE}),
    doc="""Run neighbouring pointwise operators in one loop.

    Before: %y = Mul(Sigmoid(Add(%a, %b)), %c)
    After:  %y = Fused(%a, %b, %c) {kind = "pointwise"}
    Any pointwise operators on floating-point numbers and truth values; operands may be broadcast into the region.
    Refuses when: an intermediate is used elsewhere or is a graph output, or has another shape than the result.
    """,
)

RULES = (REGION,)
