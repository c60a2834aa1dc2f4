"""From a region to a fused node: its body, operands and results, and whether contracting it is legal at all.

A draft says what may be contracted. ``sample`` makes the fused node without putting it into the graph: kernel packs can
be asked about it and the cost model can price it, and if nobody takes it, nothing needs undoing.

What becomes an operand: every value from outside, weights included, so that a kernel finds their data at
``node.inputs[i].const`` and the body depends on its inputs only. Constants that say *what is computed* are copied into
the body instead, since kernels generate code from them: single elements that only pointwise operators use, and small
integer parameters (axes, shapes, bounds) of reductions and movement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autofusion.errors import GraphError
from autofusion.fusion.records import origins
from autofusion.fusion.rule_switches import BoundRule
from autofusion.ir import operators
from autofusion.ir.graph import FUSED, Graph, Node, Value, copy_node
from autofusion.ir.operators import PARAMETER_ELEMENTS, OpClass
from autofusion.refusal import Refusal
from autofusion.rules.facts import private_hint
from autofusion.rules.rule import FuseRule, Region

SEARCH_LIMIT = 4096
"""Nodes that the search for a path back into a region may visit before it gives up (and the region is refused)."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A region that may legally become a fused node: its nodes in topological order, and the values that others see."""

    rule: BoundRule
    nodes: tuple[Node, ...]
    anchor: Node
    results: tuple[Value, ...]

    @property
    def kind(self) -> str:
        """Kind of the fused node."""
        assert isinstance(self.rule.rule, FuseRule)
        return self.rule.rule.kind.name


class Order:
    """Positions of the nodes of a sorted graph, and the regions chosen so far, which already count as one node each."""

    def __init__(self, graph: Graph) -> None:
        self.position = {node: index for index, node in enumerate(graph.nodes)}
        self.group: dict[Node, tuple[Node, ...]] = {}
        self._wide: list[tuple[int, int]] = []

    def choose(self, draft: Draft) -> None:
        """Let the draft's nodes count as one."""
        for node in draft.nodes:
            self.group[node] = draft.nodes
        if len(draft.results) > 1:
            places = [self.position[node] for node in draft.nodes]
            self._wide.append((min(places), max(places)))

    def nonconvex_through(self, nodes: Sequence[Node]) -> Node | None:
        """A node outside on a path from the region back into it, or None if the region is convex.

        On such a path every node begins before the region ends, as long as chosen regions with several results, whose
        first node may precede what feeds their last one, are taken as the interval that they span.
        """
        inside = set(nodes)
        end = max(self.position[node] for node in nodes)
        while (wider := max([end, *(high for low, high in self._wide if low < end)])) > end:
            end = wider
        frontier = [c for node in nodes for v in node.outputs for c in v.consumers if c not in inside]
        start: dict[Node, Node] = {node: node for node in frontier}
        visited = 0
        while frontier:
            node = frontier.pop()
            visited += 1
            if visited > SEARCH_LIMIT:
                return start[node]
            for member in self.group.get(node, (node,)):
                if self.position[member] >= end:
                    continue
                for value in member.outputs:
                    for consumer in value.consumers:
                        if consumer in inside:
                            return start[node]
                        if consumer not in start:
                            start[consumer] = start[node]
                            frontier.append(consumer)
        return None


def draft(graph: Graph, region: Region, bound: BoundRule, order: Order) -> Draft | Refusal:
    """``region`` checked, or why it cannot be a fused node. Raises GraphError if the rule made no sense."""
    nodes = _checked(graph, region, order)
    for node in nodes:
        for attribute in node.attrs.values():
            if isinstance(attribute, Graph):
                return Refusal(f"{node.label} has a body of its own", node)
    inside = set(nodes)
    results = [value for node in nodes for value in node.outputs if value.escapes(inside)]
    if not results:
        raise GraphError(f"the region of {region.anchor.label} has no result that anyone uses")
    if len(results) > 1:
        if not region.multiple_results:
            return Refusal(_two_results(results, inside), results[0], private_hint(results[0]))
        returns_through = order.nonconvex_through(nodes)
        if returns_through is not None:
            return Refusal(f"a path leaves the region through {returns_through.label} and returns", returns_through)
    return Draft(bound, nodes, region.anchor, tuple(results))


def sample(graph: Graph, wanted: Draft) -> Node:
    """The fused node of a draft, outside the graph."""
    attrs, operands = _contracted(wanted)
    node = Node(graph, FUSED, attrs, wanted.anchor.name, origins(wanted.nodes))
    node.inputs = list(operands)  # not as uses: the graph does not know of the node
    node.outputs = [Value(value.name, value.type, node, index) for index, value in enumerate(wanted.results)]
    for value in node.outputs:
        value._graph_outputs = 1  # all are used, or they would not be results
    return node


def locate(refusal: Refusal, wanted: Draft) -> Refusal:
    """A kernel pack's refusal of a sample of ``wanted``, or of an equal draft, with the culprit in the graph itself."""
    return replace(refusal, culprit=_counterpart(refusal.culprit, wanted))


def _counterpart(culprit: Node | Value | None, wanted: Draft) -> Node | Value | None:
    if culprit is None:
        return None
    node, operand = (culprit, None) if isinstance(culprit, Node) else (culprit.producer, None)
    if isinstance(culprit, Value) and node is None:
        node, operand = next(iter(culprit._uses), (None, None))
    if node is None:
        return None
    if node.op == FUSED:
        return wanted.results[culprit.index] if isinstance(culprit, Value) else wanted.anchor
    inside = [] if node.graph is None else list(node.graph.nodes)
    if len(inside) != len(wanted.nodes) or node not in inside:
        return None
    there = wanted.nodes[inside.index(node)]
    if isinstance(culprit, Node):
        return there
    return there.outputs[culprit.index] if operand is None else there.inputs[operand]


def commit(graph: Graph, chosen: Draft) -> Node:
    """Put the fused node of a draft in place of its nodes."""
    attrs, operands = _contracted(chosen)
    node = graph.node(
        FUSED,
        operands,
        attrs,
        outputs=[value.type for value in chosen.results],
        name=chosen.anchor.name,
        origin=origins(chosen.nodes),
    )
    for old, new in zip(chosen.results, node.outputs, strict=True):
        graph.replace_uses(old, new)
        old.name, new.name = new.name, old.name
    for old_node in reversed(chosen.nodes):
        graph.remove(old_node)
    node.name = chosen.anchor.name  # free again, and what the user knows the place by
    return node


def _checked(graph: Graph, region: Region, order: Order) -> tuple[Node, ...]:
    """The region's nodes in topological order."""
    for node in region.nodes:
        if node not in order.position or node.graph is not graph:
            raise GraphError(f"a region has {node.label}, which is not in graph '{graph.name}'")
    nodes = tuple(sorted(dict.fromkeys(region.nodes), key=order.position.__getitem__))
    if region.anchor not in nodes:
        raise GraphError(f"a region lacks its own anchor {region.anchor.label}")
    return nodes


def _two_results(results: Iterable[Value], inside: set[Node]) -> str:
    first = next(iter(results))
    if first.is_output:
        return f"'{first.name}' is also a graph output"
    outside = next(consumer for consumer in first.consumers if consumer not in inside)
    return f"'{first.name}' is also used by {outside.label}"


def _contracted(draft: Draft) -> tuple[dict[str, Any], list[Value]]:
    """Attributes and operands of the fused node."""
    nodes = draft.nodes
    inside = set(nodes)
    body = Graph(draft.kind)
    values: dict[Value, Value] = {}
    operands: list[Value] = []
    for node in nodes:
        for value in node.inputs:
            if value is None or value in values or value.producer in inside:
                continue
            if value.const is not None and _is_structural_constant(value, inside):
                continue  # copied into the body on demand
            operands.append(value)
            values[value] = body.add_input(value.name, value.type)
    for node in nodes:
        copy = copy_node(node, body, values)
        body.unique_node_name(copy.name)
        for value in copy.outputs:
            body.unique_value_name(value.name)
    for value in draft.results:
        body.add_output(values[value])
    return {"kind": draft.kind, "rule": draft.rule.label, "body": body}, operands


def _is_structural_constant(value: Value, inside: set[Node]) -> bool:
    data = value.const
    assert data is not None
    small = data.size <= PARAMETER_ELEMENTS and data.dtype.kind in "iub"
    for consumer, _ in value._uses:
        if consumer not in inside:
            continue
        op_class = operators.op_class(consumer)
        if op_class is OpClass.POINTWISE:
            if data.size != 1:
                return False
        elif op_class is OpClass.CONTRACTION or not small:
            return False
    return True
