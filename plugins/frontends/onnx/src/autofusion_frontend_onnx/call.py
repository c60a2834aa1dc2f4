"""What a converter works with: one source node, its operands and attributes, and the means to emit IR nodes for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from autofusion import frontends
from autofusion.frontends import ModelError
from autofusion.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    import onnx

    from autofusion_frontend_onnx.scope import Scope


class NotConvertible(ModelError):
    """A converter does not know this form of a custom operator: the node stays opaque. ``reason`` names no node."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class Call(frontends.Call):
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
        super().__init__(scope.graph, proto.op_type, name, inputs, attrs)
        self.scope = scope
        self.proto = proto
        self.domain = domain
        self.version = version
        self.outputs = list(proto.output)
        while len(self.outputs) > 1 and not self.outputs[-1]:
            self.outputs.pop()

    @property
    def label(self) -> str:
        """How messages name the node."""
        return f"node '{self.name}' ({self.op}, operator set {self.version})"

    def fail(self, why: str) -> NoReturn:
        """Raise ModelError about this node; one of a custom operator then stays as it is."""
        if self.domain:
            raise NotConvertible(f"{self.label}: {why}", why)
        raise ModelError(f"{self.label}: {why}")

    def without(self, *names: str, **more: Any) -> dict[str, Any]:
        """The attributes but for ``names``, plus ``more``."""
        return {k: v for k, v in self.attrs.items() if k not in names} | more

    def wants(self, index: int) -> bool:
        """True if result ``index`` has a name."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def rank(self, value: Value) -> int:
        """The rank of ``value``, as inferred or else as the source states it; raise ModelError if it is not known."""
        stated = None if value.shape is not None else self.scope.model.ranks.get(value)
        return super().rank(value) if stated is None else stated

    def free_name(self, name: str) -> str:
        """``name``, changed if the source gives it to a value."""
        return self.scope.free_name(name)

    def infer(self, node: Node) -> None:
        """Infer the result types; in a body, contradictions (that no run may ever meet) leave them unknown."""
        self.scope.infer(node)

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

    def body(self, proto: onnx.GraphProto, name: str) -> tuple[Graph, list[tuple[Value, Value]]]:
        """Import a subgraph; also return its captures, as (value here, input of the body) pairs."""
        scalars = 2 if self.op == "Loop" and not self.domain else 0
        return self.scope.body(proto, f"{self.name}/{name}", scalars)
