"""What a converter works with: one source node, its operands and attributes, and the means to emit IR nodes for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion import frontends
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_node, merge_types
from autofusion.ir.types import TensorType
from autofusion_frontend_tensorflow.sizes import known_dims, known_numbers

_BY_SHAPE = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""Operators whose result has the shape that an operand says."""

if TYPE_CHECKING:
    from autofusion_frontend_tensorflow.scope import Scope
    from autofusion_frontend_tensorflow.source import SourceNode


class Call(frontends.Call):
    """One source node while it is converted.

    ``inputs`` are its operands, in TensorFlow's order and layout. A converter returns one value for each result, in
    TensorFlow's layout too: what the IR wants otherwise is between Transposes.
    """

    def __init__(self, scope: Scope, source: SourceNode, name: str, inputs: Sequence[Value]) -> None:
        super().__init__(scope.graph, source.op, name, inputs)
        self.scope = scope
        self.source = source

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or ``default``: files leave out attributes that have TensorFlow's default."""
        return self.source.attr(name, default)

    def dtype_attr(self, name: str, default: Any) -> np.dtype:
        """An attribute that is an element type which the IR has."""
        given = self.attr(name)
        if given is None:
            return np.dtype(default)
        if str(given) == "DT_RESOURCE":
            self.fail(
                f"'{name}' is {given}, a variable or table whose content is not in this file: the graph is not frozen. "
                "Give the SavedModel folder instead, or freeze the graph first"
            )
        if given.dtype is None:
            self.fail(f"'{name}' is {given}, which is not the type of a tensor here")
        dtype: np.dtype = given.dtype
        return dtype

    def within(self, graph: Graph) -> Call:
        """The same node, emitting into ``graph``: a body of control flow."""
        return Call(self.scope.within(graph), self.source, self.name, self.inputs)

    def infer(self, node: Node) -> None:
        """A result whose shape is an operand: that may be known in part where inference only sees a computed vector."""
        infer_node(node)
        if node.op not in _BY_SHAPE:
            return
        value, target = node.output, node.inputs[_BY_SHAPE[node.op]]
        if target is None or target.const is not None or not isinstance(value.type, TensorType):
            return
        dims = known_dims(target)
        if dims is None or any(isinstance(d, int) and (d < 1 if node.op != "ConstantOfShape" else d < 0) for d in dims):
            return
        if node.op == "Expand":  # a size of the target may be smaller than that of the operand
            dims = tuple(d if isinstance(d, int) and d > 1 else None for d in dims)
            if value.type.rank != len(dims):
                return
        value.type = merge_types(value.type, value.type.with_shape(dims))

    def emit(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """As every frontend's; what is a part of a shape that is known is a constant too."""
        value = super().emit(op, *inputs, **attrs)
        data = known_numbers(value)
        return value if data is None else self.const(data, name=op)
