"""Nodes that are given other sizes in place, as core does for a new input shape before it calls ``Offer.resize``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from autofusion.errors import GraphError
from autofusion.ir.graph import FUSED, Node, Value
from autofusion.ir.infer import infer_node
from autofusion.ir.retype import same_but_for_sizes
from autofusion.ir.types import TensorType, Type
from autofusion.runtime.template import copy_node_with_body
from autofusion.testing import numbers
from autofusion.testing.nodes import NodeCase


class Sized:
    """A copy of a case's node whose operands can be given other sizes."""

    def __init__(self, case: NodeCase) -> None:
        self.node = copy_node_with_body(case.node)
        self.arrays = case.arrays
        self._types = {value: value.type for value in self._values()}

    def _values(self) -> Iterator[Value]:
        yield from (v for v in self.node.inputs if v is not None)
        yield from self.node.outputs
        if self.node.op == FUSED:
            yield from self.node.body.values()

    def restore(self) -> None:
        """The sizes of the case."""
        for value, type_ in self._types.items():
            value.type = type_

    def sizes(self) -> list[int]:
        """Every size above 1 of an operand that is not constant, each once."""
        types = [v.tensor for v in self.node.inputs if v is not None and v.const is None and _is_static(v.type)]
        return sorted({size for type_ in types for size in type_.static_shape if size > 1})

    def resize(self, sizes: Mapping[int, int]) -> NodeCase | None:
        """The case with these sizes instead of others, the node being given them in place; None if they do not fit it,
        or if more than sizes would change.
        """
        try:
            for value in {v for v in self.node.inputs if v is not None and v.const is None}:
                shape = value.tensor.static_shape
                value.type = value.tensor.with_shape(tuple([sizes.get(size, size) for size in shape]))
            if self.node.op == FUSED:
                self._infer_body()
            self._infer(self.node)
        except (GraphError, ValueError, IndexError):
            self.restore()
            return None
        if any(not same_but_for_sizes(self._types[value], value.type) for value in self._values()):
            self.restore()
            return None
        rng = np.random.default_rng(3)
        arrays = tuple(
            a if a is None or v is None or v.const is not None else numbers.random_array(v.tensor, rng)
            for v, a in zip(self.node.inputs, self.arrays, strict=True)
        )
        return NodeCase(self.node, arrays)

    def _infer_body(self) -> None:
        body = self.node.body
        for outer, inner in zip(self.node.inputs, body.inputs, strict=True):
            inner.type = None if outer is None else outer.type
        for node in body.nodes:
            self._infer(node)

    def _infer(self, node: Node) -> None:
        for value in node.outputs:
            value.type = None
        infer_node(node)
        if any(not _is_static(value.type) for value in node.outputs):
            raise GraphError(f"{node.label} has no static results")


def _is_static(type_: Type | None) -> bool:
    return isinstance(type_, TensorType) and type_.is_static
