"""One IR graph while it is built: knows what is its own, and captures what it uses of the graphs around it.

Abstract values refer to IR values of whichever graph they were made in. When a node of a body uses one from outside, a
constant is copied and anything else becomes an input of the body, through as many graphs as lie between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.types import Type


class Builder:
    """Builds ``graph``. ``parent`` is the builder of the graph around it."""

    def __init__(self, graph: Graph, parent: Builder | None = None) -> None:
        self.graph = graph
        self.parent = parent
        self.captures: list[tuple[Value, Value]] = []
        """(value outside, input here) pairs."""
        self._own: set[Value] = set()
        self._here: dict[Value, Value] = {}

    def input(self, name: str, type_: Type | None, default: np.ndarray | None = None) -> Value:
        """Add a graph input."""
        value = self.graph.add_input(name, type_, default)
        self._own.add(value)
        return value

    def constant(self, data: np.ndarray, name: str) -> Value:
        """A constant of this graph."""
        value = self.graph.constant(data, name)
        self._own.add(value)
        return value

    def here(self, value: Value) -> Value:
        """``value`` as this graph may use it: itself, a copy of a constant, or an input that captures it."""
        if value in self._own:
            return value
        if value not in self._here:
            if value.const is not None:
                self._here[value] = self.constant(value.const, value.name)
            else:
                assert self.parent is not None, f"'{value.name}' belongs to no graph around '{self.graph.name}'"
                outside = self.parent.here(value)
                self._here[value] = self.input(value.name, value.type)
                self.captures.append((outside, self._here[value]))
        return self._here[value]

    def knows(self, value: Value) -> bool:
        """True if this graph, or one around it, has the value."""
        return value in self._own or (self.parent is not None and self.parent.knows(value))

    def own(self, node: Node) -> None:
        """Take note of a node of this graph."""
        self._own.update(node.outputs)

    def output(self, value: Value, name: str | None = None) -> None:
        """Add a graph output."""
        self.graph.add_output(self.here(value), name)

    def finish(self) -> None:
        """Drop what no output needs, captures included."""
        self.graph.prune()
        unused = {inside for _, inside in self.captures if not inside.use_count}
        self.captures = [pair for pair in self.captures if pair[1] not in unused]
        self.graph.inputs[:] = [v for v in self.graph.inputs if v not in unused]


def align(bodies: Sequence[Builder]) -> list[Value]:
    """Give the bodies of one node the same captures in the same order; return the captured values."""
    outside = list(dict.fromkeys(value for body in bodies for value, _ in body.captures))
    for body in bodies:
        inside = dict(body.captures)
        for value in outside:
            if value not in inside:
                inside[value] = body.graph.add_input(value.name, value.type)
        own = [v for v in body.graph.inputs if v not in set(inside.values())]
        body.graph.inputs[:] = own + [inside[value] for value in outside]
        body.captures = [(value, inside[value]) for value in outside]
    return outside
