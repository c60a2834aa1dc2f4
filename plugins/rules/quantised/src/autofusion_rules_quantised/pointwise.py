"""Pointwise work on quantised tensors: dequantised, computed and quantised again in one pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.operators import OpClass
from autofusion.ir.types import TensorType
from autofusion.rules import POINTWISE, FuseRule, Refusal, Region, any_broadcast, backward
from autofusion_rules_quantised.products import quantised_joining
from autofusion_rules_quantised.scales import QUANTISERS


def _region(end: Node) -> Iterator[Region | Refusal]:
    type_ = end.output.type
    if not isinstance(type_, TensorType) or not type_.is_static:
        return
    joins = quantised_joining(TensorType(np.dtype(np.float32), type_.shape), any_broadcast)
    if not joins(end):
        return
    consumers = end.output.consumers
    if len(consumers) == 1 and not end.output.is_output and joins(consumers[0]):
        return  # not an end
    nodes = (*backward(end.inputs, [end], joins), end)
    if len(nodes) > 1 and any(node.op in (*QUANTISERS, "Gather") for node in nodes):
        yield Region(nodes, end)


RULE = FuseRule(
    "quantised.pointwise",
    POINTWISE,
    _region,
    frozenset({*QUANTISERS, "Gather"}),
    frozenset({OpClass.POINTWISE}),
    doc="""Run pointwise operators on quantised tensors in one loop with their dequantisation and quantisation.

    Before: %y = QuantizeLinear(Add(DequantizeLinear(%a, 0.5, %az), DequantizeLinear(%b, 0.25, %bz)), 0.5, %yz)
    After:  %y = Fused(%a, %az, %b, %bz, %yz) {kind = "pointwise"}
    Any pointwise operators; one scale for each tensor.
    Refuses when: an intermediate is used elsewhere or is a graph output, or has another shape than the result.
    """,
)

RULES = (RULE,)
