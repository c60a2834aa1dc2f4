"""Grow regions by what operators do: from an anchor through whatever may follow it, and back to what may feed it.

A chain that nobody foresaw still fuses, since growth asks one question of each node (``joins``) and knows no pattern.

Why single-result regions need no convexity check: every value of such a region but its result is consumed inside, so
any path that leaves does so through the result; if it came back, the result would depend on itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from autofusion.ir.graph import Node, Value

Joins = Callable[[Node], bool]
"""May this node be part of the region, by its operator, its types and the way its operands broadcast?"""

LIMIT = 48
"""Most nodes that one growth looks at; keeps matching linear in the size of the graph."""


class Growth(NamedTuple):
    """What ``forward`` found: node lists in topological order, smallest first, and where the largest one stopped."""

    chains: tuple[tuple[Node, ...], ...]
    result: Value
    """The one result of the largest region (the anchor's own result if nothing joined)."""


def forward(anchor: Node, joins: Joins, limit: int = LIMIT) -> Growth:
    """Every region of ``anchor`` and the nodes after it that has exactly one result, smallest first.

    Branches that meet again are taken as a whole (``x * sigmoid(x)``). A value that someone outside sees can only be
    the result. The anchor's first result is the one that growth follows; if another result is used, nothing joins.
    """
    start = anchor.output
    if any([v.use_count for v in anchor.outputs[1:]]):
        return Growth((), start)
    chain = _chain(start, joins, limit)
    if chain is not None:
        result = chain[-1].output if chain else start
        return Growth(tuple([tuple(chain[:count]) for count in range(1, len(chain) + 1)]), result)
    order = _topological(_cone(start, joins, limit))
    inside = {anchor}
    taken: list[Node] = []
    chains: list[tuple[Node, ...]] = []
    result = start
    open_values: dict[Value, None] = {start: None}
    for node in order:
        taken.append(node)
        inside.add(node)
        open_values[node.output] = None
        for value in node.inputs:
            if value is not None and value in open_values and not value.escapes(inside):
                del open_values[value]
        if len(open_values) == 1:
            (result,) = open_values
            chains.append(tuple(taken))
    return Growth(tuple(chains), result)


def _chain(start: Value, joins: Joins, limit: int) -> list[Node] | None:
    """The nodes that may join one after the other; None if they branch on the way."""
    chain: list[Node] = []
    value = start
    while value._uses and not value.is_output:
        consumers = value.consumers
        if len(chain) + len(consumers) > limit or not all(map(joins, consumers)):
            break
        if len(consumers) > 1:
            return None
        chain += consumers
        value = consumers[0].outputs[0]
    return chain


def _cone(start: Value, joins: Joins, limit: int) -> dict[Node, None]:
    """Nodes that may join, reached through values that nobody else sees."""
    cone: dict[Node, None] = {}
    queue = [start]
    for value in queue:
        if value.is_output:
            continue
        consumers = value.consumers
        if len(cone) + len(consumers) > limit or not all(c in cone or joins(c) for c in consumers):
            continue
        for consumer in consumers:
            if consumer not in cone:
                cone[consumer] = None
                queue.append(consumer.output)
    return cone


def _topological(nodes: Collection[Node]) -> list[Node]:
    """``nodes`` so that each comes after those of them that it uses."""
    missing = {node: len({v.producer for v in node.inputs if v is not None and v.producer in nodes}) for node in nodes}
    ready = [node for node, count in missing.items() if count == 0]
    for node in ready:
        for consumer in node.output.consumers:
            if consumer in missing:
                missing[consumer] -= 1
                if missing[consumer] == 0:
                    ready.append(consumer)
    return ready


def backward(roots: Iterable[Value | None], inside: Iterable[Node], joins: Joins, limit: int = LIMIT) -> list[Node]:
    """Producers of ``roots``, and theirs, that may join and whose results nobody outside sees, in topological order.

    ``inside`` are the nodes of the region so far. Values with another consumer, and graph outputs, stay outside.
    """
    taken: dict[Node, None] = {}
    region = set(inside)
    queue = [v for v in roots if v is not None]
    waiting: list[Value] = []
    progress = True
    while progress:
        progress = False
        for value in queue:
            node = value.producer
            if node is None or node in region:
                continue
            if len(taken) >= limit or len(node.outputs) != 1 or value.is_output:
                continue
            if value.escapes(region):
                waiting.append(value)
                continue
            if not joins(node):
                continue
            taken[node] = None
            region.add(node)
            queue.extend(v for v in node.inputs if v is not None)
            progress = True
        queue, waiting = waiting, []
    return _topological(taken)
