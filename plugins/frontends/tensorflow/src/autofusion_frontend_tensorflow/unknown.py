"""What else there is to say where an operator has no converter: all others like it, and where to cut the graph."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autofusion_frontend_tensorflow.attributes import FunctionName
from autofusion_frontend_tensorflow.registry import find_converter
from autofusion_frontend_tensorflow.scope import Scope
from autofusion_frontend_tensorflow.source import Body, Library, Ref, SourceNode

_BEFORE_THE_NETWORK = re.compile(
    r"AsString|.*Decode.*|Encode.*|.*Dataset.*|.*Iterator.*|.*HashTable.*|Initialize.*|Lookup.*|MutableDense.*|Parse.*|"
    r".*Queue.*|Read(er.*|File)|.*Regex.*|String.*|Substr|Unicode.*|WholeFile.*|.*VocabInit.*|Sdca.*|Matching.*"
)
"""Operators that fetch, decode and look up what the network is fed."""


def rest(scope: Scope, outputs: Sequence[Ref]) -> str:
    """Sentences to follow the error for the first operator without a converter."""
    found = _missing(scope, outputs)
    if not found:
        return ""
    parts = []
    if len(found) > 1:
        listed = ", ".join(
            f"{op} ('{nodes[0]}'{f' and {len(nodes) - 1} more' if len(nodes) > 1 else ''})"
            for op, nodes in sorted(found.items())
        )
        parts.append(f". These operators of the model have no converter: {listed}")
    # In the order of `found`, from the outputs up: the first is where the network begins.
    early = [nodes[0] for op, nodes in found.items() if _BEFORE_THE_NETWORK.fullmatch(op)]
    if early:
        parts.append(
            f". '{early[0]}' prepares what the network is fed: cut the graph behind it, by making what it gives an "
            f"input with its type and shape, as in --input '{early[0]}:uint8[?,?,3]' (inputs= in Python)"
        )
    return "".join(parts)


def _missing(scope: Scope, outputs: Sequence[Ref]) -> dict[str, list[str]]:
    """Operator -> its nodes, of those without a converter that the outputs depend on."""
    found: dict[str, list[str]] = {}
    library = scope.model.library
    bodies = [(scope.body, [ref for ref in outputs if ref not in scope.values], "")]
    seen: set[str] = set()
    while bodies:
        body, refs, prefix = bodies.pop()
        done = {name for name, _ in scope.values if name in body.nodes} if body is scope.body else set()
        stack = [ref[0] for ref in refs]
        while stack:
            name = stack.pop()
            node = body.nodes.get(name)
            if node is None or name in done or name in body.arguments:
                continue
            done.add(name)
            stack.extend(ref[0] for ref in node.inputs)
            inner = _bodies(node, library, seen)
            bodies += [(each, list(each.results), f"{prefix}{name}/") for each in inner]
            if node.op not in library and find_converter(node.op) is None:
                found.setdefault(node.op, []).append(prefix + name)
    return found


def _bodies(node: SourceNode, library: Library, seen: set[str]) -> list[Body]:
    """The bodies that a node runs, but for functions that were looked at already."""
    functions = [node.op] if node.op in library else []
    for name in node.attrs:
        value = node.attr(name)
        functions += [f.name for f in (value if isinstance(value, list) else [value]) if isinstance(f, FunctionName)]
    fresh = [f for f in dict.fromkeys(functions) if f in library and f not in seen]
    seen.update(fresh)
    return [*node.bodies.values(), *(library.body(f, node.label) for f in fresh)]
