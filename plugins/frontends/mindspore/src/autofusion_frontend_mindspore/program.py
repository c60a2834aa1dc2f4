"""A parsed MindIR, indexed: its function graphs, primitives and constants have one name space for the whole file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from autofusion.frontends import ModelError
from autofusion_frontend_mindspore.literals import literal

REFERENCE = "REF::"
"""Prefix of an ``op_type`` that names a primitive, a function graph, or a node that gives a closure."""


class Program:
    """What the file at ``path`` defines, by name."""

    def __init__(self, path: Path, model: Any) -> None:
        self.path = path
        self.folder = path.parent
        self.main = model.graph
        self.functions: dict[str, Any] = {}
        for function in model.functions:
            if function.name in self.functions:
                raise ModelError(f"'{path}' has two function graphs '{function.name}'")
            self.functions[function.name] = function
        self.primitives = {primitive.name: primitive for primitive in model.primitives}
        self.constants = {
            node.output[0]: node
            for graph in (self.main, *model.functions)
            for node in graph.node
            if node.op_type == "Constant" and node.output
        }
        self._attributes: dict[str, dict[str, Any]] = {}
        self._names = {name: self._named(graph) for name, graph in self.functions.items()}

    def attributes(self, primitive: str) -> dict[str, Any]:
        """The attributes of an entry of the primitive table."""
        if primitive not in self._attributes:
            proto = self.primitives[primitive]
            self._attributes[primitive] = self.literals(proto.attribute, f"primitive '{primitive}'")
        return self._attributes[primitive]

    def literals(self, attributes: Any, owner: str) -> dict[str, Any]:
        """Attributes by name."""
        return {a.name: literal(a, self.folder, f"attribute '{a.name}' of {owner}") for a in attributes}

    def constant(self, name: str) -> Any:
        """The value of a Constant node; raise ModelError if it has none."""
        node = self.constants[name]
        for attribute in node.attribute:
            if attribute.name == "value":
                return literal(attribute, self.folder, f"constant '{name}'")
        raise ModelError(f"constant '{name}' has no value")

    def label(self, node: Any) -> str:
        """The name that reports use for a node: its scope, or its own."""
        scope = str(node.domain).removeprefix("Default/")
        return scope if "/" in node.domain else node.output[0].rpartition(":")[0] or str(node.output[0])

    def reaches(self, start: str, target: str, avoiding: Collection[str] = ()) -> bool:
        """True if running function graph ``start`` may call ``target``, not counting ways through ``avoiding``."""
        seen, stack = set(avoiding), [start]
        while stack:
            for name in self._names.get(stack.pop(), ()):
                if name == target:
                    return True
                if name not in seen:
                    seen.add(name)
                    stack.append(name)
        return False

    def unknown_nodes(self, known: Callable[[str], bool]) -> list[tuple[str, str]]:
        """(primitive, name) of every node that the main graph may run whose primitive is not ``known``."""
        found, seen = [], {self.main.name}
        stack = [self.main]
        while stack:
            graph = stack.pop()
            for node in graph.node:
                primitive = self.primitives.get(node.op_type.removeprefix(REFERENCE))
                if primitive is not None and not known(primitive.op_type):
                    found.append((primitive.op_type, self.label(node)))
            names = (self._named(graph) if graph is self.main else self._names[graph.name]) - seen
            seen |= names
            stack.extend(self.functions[name] for name in sorted(names))
        return found

    def _named(self, graph: Any) -> set[str]:
        found: set[str] = set()
        for node in graph.node:
            found.update(name for name in node.input if name in self.functions)
            callee = node.op_type.removeprefix(REFERENCE)
            if callee in self.functions and callee not in self.primitives:
                found.add(callee)
        return found
