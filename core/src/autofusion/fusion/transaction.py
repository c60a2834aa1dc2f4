"""One rewrite, applied wholly or not at all.

A rule may only add nodes; everything else is the engine's to do, after the result has been checked. What a rule did
before it raised, or before its result was refused, is taken back from notes made of the matched nodes beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autofusion.errors import GraphError, ShapeError
from autofusion.fusion.records import origins
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_node, merge_types
from autofusion.refusal import Refusal
from autofusion.rules.pattern import Match
from autofusion.rules.rule import Builder, RewriteRule


class BrokenRuleError(GraphError):
    """A rule's replacement breaks the graph or its own contract."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a rewrite did: the nodes it made and removed, nodes that got another operand, values that lost a use."""

    made: list[Node]
    removed: list[Node]
    redirected: list[Node]
    loosened: list[Value]


def apply(rule: RewriteRule, match: Match, graph: Graph) -> Applied | Refusal:
    """Rewrite ``match``, unless the rule refuses it; on any exception the graph is as it was, and the exception goes
    on.
    """
    notes = _Notes(graph, match)
    builder = Builder(graph, origins(node for node in reversed(match.nodes) if not _survives(node, match)))
    try:
        answer = rule.rewrite(match, builder)
        notes.require_untouched(builder.made)
        if isinstance(answer, Refusal):
            if builder.made:
                notes.restore()
            return answer
        results = list(answer)
        _own_origin_first(match, builder.made)
        _check(match, results, builder.made, graph)
    except BaseException:
        notes.restore()
        raise
    return _commit(match, results, builder.made, graph)


def refusal_of(rule: RewriteRule, match: Match, graph: Graph) -> Refusal | None:
    """Why the rule would not rewrite ``match``, or None; the graph is as it was."""
    notes = _Notes(graph, match)
    try:
        answer = rule.rewrite(match, Builder(graph, ()))
    finally:
        notes.restore()
    return answer if isinstance(answer, Refusal) else None


def _own_origin_first(match: Match, made: Sequence[Node]) -> None:
    """A node that takes the place of one of its kind keeps that one's name in front: reports call it by the first."""
    for node in made:
        for old in match.nodes:
            if old.op == node.op and old.origin:
                if node.origin[0] != old.origin[0]:
                    node.origin = tuple(dict.fromkeys((*old.origin, *node.origin)))
                break


def _survives(node: Node, match: Match) -> bool:
    return node in match.shared and any(v.escapes(match.nodes) for v in node.outputs)


# ---- checking -----------------------------------------------------------------------------------------------------


def _check(match: Match, results: Sequence[Value | None], made: Sequence[Node], graph: Graph) -> None:
    """Raise unless ``results`` can take the place of the root's results; types of new nodes are inferred on the way."""
    root = match.root
    if len(results) != len(root.outputs):
        raise BrokenRuleError(f"it returned {len(results)} values for the {len(root.outputs)} results of {root.label}")
    for node in made:
        infer_node(node)
    fresh = set(made)
    for old, new in zip(root.outputs, results, strict=True):
        if new is None:
            if old.use_count:
                raise BrokenRuleError(f"it returned nothing for '{old.name}', which is used")
            continue
        if not isinstance(new, Value):
            raise BrokenRuleError(f"it returned {type(new).__name__} for '{old.name}', expected a value")
        if new.producer is root:
            raise BrokenRuleError(f"it returned '{new.name}', a result of the node that it replaces")
        if new.producer is not None and new.producer not in graph:
            raise BrokenRuleError(f"it returned '{new.name}', whose node is not in the graph")
        try:
            merge_types(old.type, new.type)
        except ShapeError as error:
            raise BrokenRuleError(f"its result for '{old.name}' has another type: {error}") from error
    _require_acyclic(match, made, [v for v in results if v is not None], fresh, graph)


def _require_acyclic(
    match: Match, made: Iterable[Node], results: Iterable[Value], fresh: set[Node], graph: Graph
) -> None:
    """Raise if the replacement needs what the root makes. What the match itself reads cannot depend on the root."""
    needed = [value for node in made for value in node.inputs if value is not None and value.producer is not None]
    needed += [value for value in results if value.producer is not None]
    known: set[Value | None] = {value for node in match.nodes for value in node.inputs}
    known |= {value for node in match.nodes if node is not match.root for value in node.outputs}
    frontier = [value for value in needed if value not in known and value.producer not in fresh]
    if not frontier:
        return
    # Rules look one step past what they match: at what a Transpose that feeds the root transposes, for instance.
    feeders = {value.producer for value in known if value is not None and value.producer is not None}
    known |= {value for node in feeders for value in node.inputs}
    frontier = [value for value in frontier if value not in known]
    seen: set[Node] = set()
    while frontier:
        value = frontier.pop()
        node = value.producer
        if node is None or node in seen:
            continue
        if node is match.root:
            raise BrokenRuleError(f"its result depends on {node.label}, which it replaces")
        if node not in graph:
            raise BrokenRuleError(f"it uses '{value.name}', whose node is not in the graph")
        seen.add(node)
        frontier += [v for v in node.inputs if v is not None and v not in known]


# ---- committing ---------------------------------------------------------------------------------------------------


def _commit(match: Match, results: Sequence[Value | None], made: list[Node], graph: Graph) -> Applied:
    fresh = set(made)
    redirected = {consumer: None for old in match.root.outputs for consumer, _ in old._uses}
    for old, new in zip(match.root.outputs, results, strict=True):
        if new is None:
            continue
        if new.producer is not None:
            new.type = merge_types(old.type, new.type)
        graph.replace_uses(old, new)
        if new.producer in fresh:
            old.name, new.name = new.name, old.name  # what the value is has not changed, so neither does its name
    removed: list[Node] = []
    loosened: dict[Value, None] = {}
    _remove_dead([*match.nodes, *reversed(made)], graph, removed, loosened)
    gone = set(removed)
    return Applied(
        [node for node in made if node not in gone],
        removed,
        [node for node in redirected if node not in gone],
        [value for value in loosened if value.producer is None or value.producer not in gone],
    )


def _remove_dead(candidates: list[Node], graph: Graph, removed: list[Node], loosened: dict[Value, None]) -> None:
    stack = list(reversed(candidates))
    while stack:
        node = stack.pop()
        if node.graph is not graph or any([value.use_count for value in node.outputs]):
            continue
        operands = [value for value in node.inputs if value is not None]
        graph.drop(node)
        removed.append(node)
        for value in operands:
            loosened[value] = None
            if value.producer is not None and not value.use_count:
                stack.append(value.producer)


# ---- taking back --------------------------------------------------------------------------------------------------


class _Notes:
    """The state of the matched nodes and of the graph's size before a rule ran."""

    def __init__(self, graph: Graph, match: Match) -> None:
        self._graph = graph
        self._root = match.root
        self._size = len(graph)
        self._nodes = [(n, n.op, n.attrs.copy(), n.inputs.copy(), n.origin) for n in match.nodes]
        self._uses = [(value, value.uses) for value in match.root.outputs]
        self._outputs = graph.outputs

    def require_untouched(self, made: Sequence[Node]) -> None:
        """Raise if the rule did anything but add nodes with its builder."""
        if len(self._graph) != self._size + len(made):
            raise BrokenRuleError("it added or removed nodes other than with its builder")
        for node, op, attrs, inputs, origin in self._nodes:
            same_attrs = node.attrs.keys() == attrs.keys() and all([node.attrs[k] is v for k, v in attrs.items()])
            if node.op != op or node.inputs != inputs or node.origin != origin or not same_attrs:
                raise BrokenRuleError(f"it edited {node.label} in place; a rewrite may only add nodes")
        if self._graph.outputs != self._outputs:
            raise BrokenRuleError("it changed the graph's outputs; the engine does that")

    def restore(self) -> None:
        """Undo what the rule did."""
        graph = self._graph
        matched = {node for node, *_ in self._nodes}
        for node, op, attrs, inputs, origin in self._nodes:
            graph._nodes.setdefault(node, None)
            node.graph, node.op, node.attrs, node.origin = graph, op, attrs, origin
            while len(node.inputs) < len(inputs):
                node.add_input(None)
            for index, value in enumerate(inputs):
                node.set_input(index, value)
            while len(node.inputs) > len(inputs):
                node.set_input(len(node.inputs) - 1, None)
                node.inputs.pop()
        for value, uses in self._uses:
            for consumer, index in uses:
                consumer.set_input(index, value)
        for index, value in enumerate(self._outputs):
            graph.set_output(index, value)
        extra = (
            [n for n in graph.nodes[-(len(graph) - self._size) :] if n not in matched]
            if len(graph) > self._size
            else []
        )
        for node in reversed(extra):
            for index in range(len(node.inputs)):
                node.set_input(index, None)
            graph._nodes.pop(node, None)
            node.graph = None
