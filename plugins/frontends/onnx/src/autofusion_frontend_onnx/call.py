"""What a converter works with: one source node, its operands and attributes, and the means to emit IR nodes for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.types import TensorType

if TYPE_CHECKING:
    import onnx

    from autofusion_frontend_onnx.scope import Scope


class NotConvertible(ModelError):
    """A converter does not know this form of a custom operator: the node stays opaque. ``reason`` names no node."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class Call:
    """One source node while it is converted.

    ``inputs`` has None for absent operands, none at the end. ``outputs`` are the names of the results, "" for those
    that nobody wants. ``attrs`` hold graphs as protos: ``body`` turns one into a Graph with its captures.
    """

    def __init__(
        self,
        scope: Scope,
        proto: onnx.NodeProto,
        domain: str,
        version: int,
        name: str,
        inputs: Sequence[Value | None],
        attrs: dict[str, Any],
    ) -> None:
        self.scope = scope
        self.proto = proto
        self.domain = domain
        self.op = proto.op_type
        self.version = version
        self.name = name
        self.inputs = list(inputs)
        self.attrs = attrs
        self.outputs = list(proto.output)
        while len(self.outputs) > 1 and not self.outputs[-1]:
            self.outputs.pop()
        self.made: list[Node] = []

    # ---- reading -------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that nodes are emitted into."""
        return self.scope.graph

    @property
    def label(self) -> str:
        """How messages name the node."""
        return f"node '{self.name}' ({self.op}, operator set {self.version})"

    def fail(self, why: str) -> NoReturn:
        """Raise ModelError about this node; one of a custom operator then stays as it is."""
        if self.domain:
            raise NotConvertible(f"{self.label}: {why}", why)
        raise ModelError(f"{self.label}: {why}")

    def operand(self, index: int) -> Value | None:
        """Operand ``index``, or None if it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def required(self, index: int) -> Value:
        """Operand ``index``; raise ModelError if it is absent."""
        value = self.operand(index)
        if value is None:
            self.fail(f"operand {index} is missing")
        return value

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or ``default``."""
        return self.attrs.get(name, default)

    def without(self, *names: str, **more: Any) -> dict[str, Any]:
        """The attributes but for ``names``, plus ``more``."""
        return {k: v for k, v in self.attrs.items() if k not in names} | more

    def wants(self, index: int) -> bool:
        """True if result ``index`` has a name."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def rank(self, value: Value) -> int:
        """The rank of ``value``, as inferred or else as the source states it; raise ModelError if it is not known."""
        if not isinstance(value.type, TensorType) or value.type.rank is None:
            stated = self.scope.model.ranks.get(value)
            if stated is not None:
                return stated
            self.fail(f"the rank of '{value.name}' is not known, and this old form of {self.op} depends on it")
        return value.type.rank

    def axis(self, value: Value, axis: int) -> int:
        """``axis`` of ``value``, counted from the front; raise ModelError if there is no such axis."""
        rank = self.rank(value)
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is out of range for '{value.name}' of rank {rank}")
        return axis % rank

    def dtype(self, value: Value) -> np.dtype:
        """The element type of ``value``; raise ModelError if it is not known."""
        if value.dtype is None:
            self.fail(f"the element type of '{value.name}' is not known, and the meaning of {self.op} depends on it")
        return value.dtype

    def undo(self) -> None:
        """Remove what was emitted."""
        for node in reversed(self.made):
            self.graph.remove(node)
        self.made.clear()

    # ---- emitting ------------------------------------------------------------------------------------------

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Any] | None = None,
        *,
        outputs: int = 1,
        name: str = "",
        output_names: Sequence[str] = (),
    ) -> Node:
        """Emit a node and infer its types."""
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        name = self.scope.free_name(name or f"{self.name}/{op.rsplit('::', 1)[-1]}", bool(name))
        names = [output_names[i] if i < len(output_names) and output_names[i] else "" for i in range(outputs)]
        names = [n or (name if outputs == 1 else f"{name}.{i}") for i, n in enumerate(names)]
        node = self.graph.node(op, operands, attrs, outputs=outputs, output_names=names, name=name, origin=(self.name,))
        self.made.append(node)
        self.scope.infer(node)
        return node

    def emit(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Emit a one-result node; return its result."""
        return self.node(op, inputs, attrs).output

    def result(
        self,
        op: str | None = None,
        inputs: Sequence[Value | None] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> list[Value]:
        """Emit the node that gives all results, under the names of the source; by default the source node as it is."""
        return self.node(
            op or self.op,
            self.inputs if inputs is None else inputs,
            self.attrs if attrs is None else attrs,
            outputs=len(self.outputs),
            name=self.name,
            output_names=self.scope.value_names(self.outputs),
        ).outputs

    def const(self, data: Any, dtype: Any = None, name: str = "const") -> Value:
        """A constant."""
        return self.graph.constant(np.asarray(data, dtype), self.scope.free_name(f"{self.name}/{name}"))

    def ints(self, data: Sequence[int] | int, name: str = "const") -> Value:
        """A constant of 64-bit integers: a vector, or a scalar for a number."""
        return self.const(data, np.int64, name)

    def like(self, data: float, value: Value, name: str = "const") -> Value:
        """A scalar of the element type of ``value``, known or not."""
        if value.dtype is not None:
            return self.const(data, value.dtype, name)
        return self.emit("CastLike", self.const(data, np.float32, name), value)

    def dim(self, value: Value, axis: int) -> Value:
        """Size of one axis as a vector of one 64-bit integer, constant if it is known."""
        if value.shape is not None and -len(value.shape) <= axis < len(value.shape):
            size = value.shape[axis]
            if isinstance(size, int):
                return self.ints([size])
        end = {} if axis == -1 else {"end": axis + 1}
        return self.emit("Shape", value, start=axis, **end)

    def body(self, proto: onnx.GraphProto, name: str) -> tuple[Graph, list[tuple[Value, Value]]]:
        """Import a subgraph; also return its captures, as (value here, input of the body) pairs."""
        scalars = 2 if self.op == "Loop" and not self.domain else 0
        return self.scope.body(proto, f"{self.name}/{name}", scalars)
