"""The fused graph of a class of sizes, which is given the sizes of one shape after the other in place.

Making a graph for every new shape (copy, infer, rewrite, fuse) takes several times as long as finding its sizes. What a
plan keeps of the graph are sizes; whoever wants to look at the graph of a plan gets one made for it then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.fusion.recipe import Recipe
from autofusion.fusion.replay import Changed, rewritten
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.operators import PARAMETER_ELEMENTS
from autofusion.ir.retype import Evaluate, OtherStructure, Trace, same_but_for_sizes
from autofusion.ir.types import Type
from autofusion.kernels.contract import Offer
from autofusion.lowering.recall import Chosen, recall
from autofusion.lowering.select import Candidate, Choice, Selector
from autofusion.offers.ask import Offers

Types = Mapping[str, Type]


@dataclass(frozen=True, slots=True)
class _Last:
    """What was last chosen for a node, for these types of operands and results; ``offer`` if it can be resized."""

    types: list[Type | None]
    offer: Offer | None
    candidate: Candidate | None


class Template:
    """``fused`` is what ``recipe`` makes of ``head``, whose sizes ``trace`` finds again. Made for one class of sizes.

    Only used with ``lock`` held.
    """

    def __init__(
        self, head: Graph, trace: Trace, recipe: Recipe, fused: Graph, switches: Switches, evaluate: Evaluate, lock: Any
    ) -> None:
        self._head, self._trace, self._recipe = head, trace, recipe
        self._switches, self._evaluate, self._lock = switches, evaluate, lock
        self.graph, _ = copy_with_bodies(fused)
        self._last: dict[Node, _Last] = {}
        self._users: dict[Value, list[Node]] = {}
        """Constants, each with the nodes of ``graph`` that have it as an operand or in their body."""
        for node in self.graph.nodes:
            for value in (*node.inputs, *(node.body.constants() if node.op == FUSED else ())):
                if value is not None and value.const is not None:
                    self._users.setdefault(value, []).append(node)
        self._unsteady: set[Node] = set()
        """Nodes with constants that depend on sizes: packs, which may keep these, are asked anew."""
        self._made: dict[str, Node] = {}
        """Nodes that rewrites have made, by name, as they were at first."""
        self._sources: list[tuple[Value, Value]] = []
        """Values of ``graph`` whose sizes change, each with the one of ``head`` that it is made from."""
        self.problem = trace.problem
        """Why sizes cannot be found again in place, if they cannot."""
        if not self.problem:
            self._match()

    # ---- sizes -----------------------------------------------------------------------------------------------

    def _match(self) -> None:
        head = self._head
        if self._recipe.rewritten:
            head = rewritten(self._recipe, head, self._switches)
            made = {name for step in self._recipe.rewritten for name in step.made}
            self._made = {node.name: node for node in head.nodes if node.name in made}
        named: dict[str, Value] = {}
        for value in _all_values(head):
            if named.setdefault(value.name, value) is not value:
                self.problem = f"two values are called '{value.name}'"
        lost = next((value for value in _all_values(self.graph) if value.name not in named), None)
        if lost is not None:
            self.problem = f"'{lost.name}' is not in the graph that was fused"
        if not self.problem:
            pairs = [(value, named[value.name]) for value in _all_values(self.graph)]
            varying = self._trace.varying
            self._sources = [(v, source) for v, source in pairs if self._recipe.rewritten or source in varying]

    def resize(self, types: Types) -> None:
        """Give the graph the sizes that follow from the input types. Raises OtherStructure if they do not fit it."""
        try:
            self._trace.retype(types, self._evaluate)
            sources = self._rewritten() if self._recipe.rewritten else self._sources
        except Changed as error:
            raise OtherStructure(str(error)) from None
        except AutofusionError:
            raise
        except PLUGIN_FAULTS as error:
            require_own(error)
            raise OtherStructure(f"{type(error).__name__}: {error}") from error
        for value, source in sources:
            if value.const is not None and value.const is not source.const and not _equal(value.const, source.const):
                _require_same_role(value, source)
                value.const = source.const
                self._unsteady.update(self._users.get(value, ()))
            if value.type is not source.type:
                if not same_but_for_sizes(value.type, source.type):
                    raise OtherStructure(f"'{value.name}' has other dims of 0 or 1")
                value.type = source.type

    def _rewritten(self) -> list[tuple[Value, Value]]:
        """The sources in a graph that the rules have rewritten again, where they agree."""
        head = rewritten(self._recipe, self._head, self._switches)
        named = {value.name: value for value in _all_values(head)}
        for node in head.nodes:
            before = self._made.get(node.name)
            if before is not None:
                _require_alike(node, before)
        return [(value, named[value.name]) for value, _ in self._sources]

    # ---- kernels ---------------------------------------------------------------------------------------------

    def choose(self, offers: Offers, known: Mapping[str, Chosen]) -> dict[Node, Choice]:
        """The kernels that were chosen for the class, for the sizes of now. Raises KernelError if none runs a node."""
        found: dict[Node, Choice] = {}
        for node in self.graph.nodes:
            chosen = known.get(node.name)
            if chosen is not None:
                candidate = self._candidate(node, chosen, offers)
                if candidate is not None:
                    found[node] = Choice(candidate, chosen.losers, chosen.refusals)
        if len(found) == len(self.graph):
            return found
        return Selector(self.graph, offers, found, copy_node_with_body).run()

    def _candidate(self, node: Node, chosen: Chosen, offers: Offers) -> Candidate | None:
        if not chosen.pack:
            return recall(node, chosen, offers)
        types = [v.type for v in (*node.inputs, *node.outputs) if v is not None]
        steady = node not in self._unsteady
        last = self._last.get(node) if steady else None
        if last is None and steady:
            wanted = (o for o in offers.offers_of(node, chosen.pack) if o.resize is not None and chosen.matches(o))
            last = _Last([], next(wanted, None), None)
        if last is None:
            return recall(copy_node_with_body(node), chosen, offers)
        if last.types == types:
            return last.candidate
        resized = None if last.offer is None else offers.resized(node, last.offer, chosen.pack)
        if resized is not None and chosen.matches(resized.offer):
            last = _Last(types, resized.offer, Candidate(*resized))
        else:
            # Of a copy, since whoever cannot resize may look at the node later.
            last = _Last(types, last.offer, recall(copy_node_with_body(node), chosen, offers))
        self._last[node] = last
        return last.candidate

    # ---- looking ---------------------------------------------------------------------------------------------

    def own_graph(self, types: Types) -> Callable[[], tuple[Graph, Mapping[Node, Node]]]:
        """What makes the fused graph of these input types for good, and the map from the template's nodes to its."""

        def make() -> tuple[Graph, Mapping[Node, Node]]:
            with self._lock:
                self.resize(types)
                return copy_with_bodies(self.graph)

        return make


def copy_with_bodies(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """A copy that shares no value with ``graph``, not in the bodies of fused nodes either, and the map of its nodes."""
    new = graph.copy()
    nodes = dict(zip(graph.nodes, new.nodes, strict=True))
    for node in nodes.values():
        _own_body(node)
    return new, nodes


def _own_body(node: Node) -> None:
    if node.op == FUSED:
        node.attrs["body"] = node.body.copy()


def copy_node_with_body(node: Node) -> Node:
    """A copy of a node outside the graph that keeps its sizes."""
    graph = Graph("node")
    values = {v: Value(v.name, v.type, const=v.const) for v in node.inputs if v is not None}
    copy = graph.node(
        node.op,
        [None if v is None else values[v] for v in node.inputs],
        node.attrs,
        outputs=[v.type for v in node.outputs],
        output_names=[v.name for v in node.outputs],
        name=node.name,
        origin=node.origin,
    )
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new._graph_outputs = old.use_count
    _own_body(copy)
    return copy


def _require_same_role(value: Value, source: Value) -> None:
    """Small constants are parameters, which a fused node takes in, and larger ones are data."""
    before, after = value.const, source.const
    if before is None or after is None or (after.size <= PARAMETER_ELEMENTS) != (before.size <= PARAMETER_ELEMENTS):
        raise OtherStructure(f"constant '{value.name}' is a parameter for one size and data for another")


def _equal(a: np.ndarray, b: np.ndarray | None) -> bool:
    """True for the same numbers: rules make their constants again, and kernels know constants by identity."""
    return b is not None and a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)


def _require_alike(node: Node, before: Node) -> None:
    """What the rules have made may only differ in sizes: the same operators, attributes and operands."""
    mine, others = ([None if v is None else v.name for v in each.inputs] for each in (node, before))
    if node.op != before.op or mine != others or not _equal_attributes(node.attrs, before.attrs):
        raise OtherStructure(f"rules make another {node.label}")


def _all_values(graph: Graph) -> Iterator[Value]:
    """Values of a graph, its constants among them, and those of fused bodies."""
    yield from graph.values()
    yield from graph.constants()
    for node in graph.nodes:
        if node.op == FUSED:
            yield from _all_values(node.body)


def _equal_attributes(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        np.array_equal(x, y) if isinstance(x, np.ndarray) or isinstance(y, np.ndarray) else x == y
        for x, y in ((a[key], b[key]) for key in a)
    )
