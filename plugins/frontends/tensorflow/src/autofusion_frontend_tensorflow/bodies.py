"""Functions as body graphs of the IR's control flow: constants go inside, all else that a body reads is an operand."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.frontends import ModelError
from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import Type
from autofusion_frontend_tensorflow import complexes
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.source import Body, Ref, SourceNode

_SAME = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot"})


def function_of(call: Call, attribute: str) -> Body:
    """The body that ``attribute`` names, or that was found in Switch and Merge nodes."""
    if attribute in call.source.bodies:
        return call.source.bodies[attribute]
    function = call.attr(attribute)
    if function is None:
        call.fail(f"it does not say which function is its '{attribute}'")
    return call.scope.model.library.body(function.name, call.label)


def check_arity(call: Call, body: Body, operands: int) -> None:
    """Raise ModelError unless the function takes ``operands``."""
    if len(body.arguments) != operands:
        call.fail(f"function '{body.name}' takes {len(body.arguments)} operands, found {operands}")


def outer(values: Sequence[Value]) -> list[Value]:
    """The operands that a body must be given: those that are not constant, each once."""
    return [v for v in dict.fromkeys(values) if v.const is None]


class BodyBuilder:
    """A body graph in the making: explicit inputs first, then what it captures."""

    def __init__(self, call: Call, name: str) -> None:
        self._call = call
        self.graph = Graph(f"{call.name}/{name}")
        self._captured: dict[Value, Value] = {}

    def input(self, name: str, type_: Type | None) -> Value:
        """An explicit input."""
        return self.graph.add_input(name, type_)

    def capture(self, values: Sequence[Value]) -> None:
        """Let these values from outside be the next inputs, in this order."""
        for value in values:
            self._captured[value] = self.graph.add_input(value.name, value.type)

    def inside(self, value: Value) -> Value:
        """What stands for a value from outside."""
        if value.const is not None:
            return self.graph.constant(value.const, value.name)
        return self._captured[value]

    def run(self, body: Body, arguments: Sequence[Value], prefix: str) -> list[Value]:
        """Import ``body``; return its results."""
        return self._call.scope.inlined(body, arguments, prefix, self.graph)

    def finish(self, results: Sequence[Value]) -> Graph:
        """The graph with these outputs."""
        for index, value in enumerate(results):
            complexes.refuse(value, f"a result of {self._call.label}")
            self.graph.add_output(value, f"result.{index}")
        self.graph.prune()
        self.graph.sort()
        return self.graph


def through(body: Body, ref: Ref) -> Ref:
    """``ref`` seen through Identity nodes."""
    for _ in range(len(body.nodes) + 1):
        node = body.nodes.get(ref[0])
        if node is None or ref[0] in body.arguments:
            return ref
        if node.op == "IdentityN":
            ref = node.inputs[ref[1]]
        elif node.op in _SAME:
            ref = node.inputs[0]
        else:
            return ref
    raise ModelError(f"function '{body.name}' has a cycle through '{ref[0]}'")


def argument_index(body: Body, ref: Ref) -> int | None:
    """Which argument ``ref`` is, or None."""
    name, port = through(body, ref)
    return body.arguments.index(name) if port == 0 and name in body.arguments else None


def producer(body: Body, ref: Ref) -> SourceNode | None:
    """The node behind ``ref``, seen through Identity; None for an argument."""
    name, _ = through(body, ref)
    return None if name in body.arguments else body.nodes.get(name)
