"""What else there is to say where an operator has no converter: all others like it, and where to cut the graph."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from autofusion.frontends import ConverterTable
from autofusion_frontend_tensorflow.attributes import FunctionName
from autofusion_frontend_tensorflow.library import Library
from autofusion_frontend_tensorflow.source import Body, Ref, SourceNode

_BEFORE_THE_NETWORK = re.compile(
    r"AsString|.*Decode.*|Encode.*|.*Dataset.*|.*Iterator.*|.*HashTable.*|Initialize.*|Lookup.*|MutableDense.*|Parse.*|"
    r".*Queue.*|Read(er.*|File)|.*Regex.*|String.*|Substr|Unicode.*|WholeFile.*|.*VocabInit.*|Sdca.*|Matching.*"
)
"""Operators that fetch, decode and look up what the network is fed."""


def cutting_advice(nodes: Sequence[tuple[str, str]]) -> str:
    """What to do about operators without a converter that come before the network; empty if there are none.

    ``nodes`` are (operator, name) pairs from the outputs up: the first is where the network begins.
    """
    early = next((name for op, name in nodes if _BEFORE_THE_NETWORK.fullmatch(op)), None)
    if early is None:
        return ""
    return (
        f"'{early}' prepares what the network is fed: cut the graph behind it, by making what it gives an input with "
        f"its type and shape, as in --input '{early}:uint8[?,?,3]' (inputs= in Python)"
    )


def unknown_nodes(
    body: Body, refs: Iterable[Ref], known: Collection[Ref], library: Library, table: ConverterTable
) -> list[tuple[str, str]]:
    """(operator, name) of every node without a converter behind ``refs``, functions included, but not behind ``known``.

    Nodes of functions are named with their function, since they have no name of their own in the graph.
    """
    found: list[tuple[str, str]] = []
    seen = {body.name}
    stack: list[tuple[Body, Sequence[Ref], str]] = [(body, [r for r in refs if r not in known], "")]
    while stack:
        part, results, prefix = stack.pop()
        for node in _behind(part, results, known if part is body else ()):
            if node.op not in library and table.find(node.op) is None:
                found.append((node.op, prefix + node.name))
            for inner in _called(node, library):
                if inner.name not in seen:
                    seen.add(inner.name)
                    stack.append((inner, inner.results, f"{inner.name}/"))
    return found


def _behind(body: Body, refs: Sequence[Ref], known: Collection[Ref]) -> Iterator[SourceNode]:
    seen: set[str] = set()
    stack = [name for name, _ in reversed(refs)]
    while stack:
        node = body.nodes.get(stack.pop())
        if node is not None and node.name not in seen:
            seen.add(node.name)
            yield node
            stack.extend(ref[0] for ref in reversed(node.inputs) if ref not in known)


def _called(node: SourceNode, library: Library) -> Iterator[Body]:
    """The function that the node is a call of, those that its attributes name, and the bodies found for it."""
    yield from node.bodies.values()
    names = [node.op]
    for attribute in node.attrs:
        value = node.attr(attribute)
        names.extend(v.name for v in (value if isinstance(value, list) else [value]) if isinstance(v, FunctionName))
    for name in names:
        if name in library:
            yield library.body(name, node.label)
