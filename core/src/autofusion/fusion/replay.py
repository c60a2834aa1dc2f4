"""Follow a recipe: apply to a graph what was decided for the same graph with other sizes.

Following it is sound whatever the sizes: a rewrite is only applied if its rule still allows it at that place, for the
sizes that are there now; a fused node has its own nodes for its meaning, and is only ever run by a kernel that was
asked about it. What is spared is the search: matching everywhere, growing and pricing alternatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.fusion import transaction
from autofusion.fusion.recipe import Fused, Recipe, Rewritten, places
from autofusion.fusion.regions import Draft, commit
from autofusion.fusion.rewrite import prepared
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.collector import collector_paused
from autofusion.ir.graph import Graph, Node
from autofusion.ir.types import TensorType, Type
from autofusion.options import Options
from autofusion.refusal import Refusal
from autofusion.rules.level import Level
from autofusion.rules.pattern import Match
from autofusion.rules.rule import RewriteRule


class Changed(AutofusionError):
    """A recipe does not hold for a graph; the message says what is different there."""


def follow(recipe: Recipe, graph: Graph, switches: Switches, options: Options) -> Graph:
    """A copy of ``graph`` (specialised) with everything applied that ``recipe`` says; at level off, the graph itself.

    Raises Changed where it does not hold.
    """
    if options.level is Level.OFF:
        return graph
    copy = rewritten(recipe, graph, switches)
    nodes = {node.name: node for node in copy.nodes}
    with collector_paused(), _faults_as_changes():
        for fused in recipe.fused:
            _fuse(fused, copy, nodes)
        copy.sort()
    return copy


def rewritten(recipe: Recipe, graph: Graph, switches: Switches) -> Graph:
    """A copy of ``graph`` with the rewrites of ``recipe`` applied, and nothing fused. Raises Changed."""
    with collector_paused(), _faults_as_changes(), np.errstate(all="ignore"):
        copy = graph.copy()
        copy.prune()
        nodes = {node.name: node for node in copy.nodes}
        for step in recipe.rewritten:
            _rewrite(step, copy, nodes, switches)
    return copy


@contextmanager
def _faults_as_changes() -> Iterator[None]:
    try:
        yield
    except Changed:
        raise
    except PLUGIN_FAULTS as error:
        require_own(error)
        raise Changed(f"{type(error).__name__}: {error}") from error


def _rewrite(step: Rewritten, graph: Graph, nodes: dict[str, Node], switches: Switches) -> None:
    rule, root = step.rule.rule, nodes.get(step.root)
    assert isinstance(rule, RewriteRule)
    match = None if root is None else prepared(rule.pattern).find(root)
    if not isinstance(match, Match) or match.nodes != [nodes.get(name) for name in step.nodes]:
        raise Changed(f"rule '{rule.name}' does not find the same nodes at '{step.root}'")
    if switches.refusal(rule, match.nodes) is not None:
        raise Changed(f"rule '{rule.name}' is switched off at '{step.root}'")
    applied = transaction.apply(rule, match, graph)
    if isinstance(applied, Refusal):
        raise Changed(f"rule '{rule.name}' refuses '{step.root}': {applied.reason}")
    if len(applied.made) != len(step.made):
        raise Changed(f"rule '{rule.name}' makes other nodes at '{step.root}'")
    for node in applied.removed:
        nodes.pop(node.name, None)
    for name, node in zip(step.made, applied.made, strict=True):
        # Refused rewrites use up names, and nobody has tried them here: the names are those that the recipe knows.
        node.name = name
        nodes[name] = node


def _fuse(step: Fused, graph: Graph, nodes: dict[str, Node]) -> None:
    try:
        region = tuple([nodes[name] for name in step.nodes])
    except KeyError as error:
        raise Changed(f"there is no node {error} to fuse with '{step.anchor}'") from None
    inside = set(region)
    results = tuple([value for node in region for value in node.outputs if value.escapes(inside)])
    if places(region, results) != step.results:
        raise Changed(f"other results of the region at '{step.anchor}' are used")
    for name in step.nodes:
        del nodes[name]
    nodes[step.anchor] = commit(graph, Draft(step.rule, region, region[step.nodes.index(step.anchor)], results))


Outline = tuple[object, ...]


def outline(graph: Graph) -> Outline:
    """What recipes may depend on without asking again: the nodes and how they are connected, which operands are
    constants, and which dims are 0 or 1, so that they broadcast or are empty. Equal outlines have equal recipes for all
    that rules ask of sizes, but for those whose rule is asked again.
    """
    lines: list[object] = [tuple([_clipped(value.type) for value in graph.inputs])]
    for node in graph.nodes:
        operands = [
            None if v is None else v.name if v.const is None else tuple([min(d, 2) for d in v.const.shape])
            for v in node.inputs
        ]
        lines.append((node.name, node.op, tuple(operands), tuple([_clipped(value.type) for value in node.outputs])))
    return tuple(lines)


def _clipped(type_: Type | None) -> object:
    if not isinstance(type_, TensorType) or type_.shape is None:
        return None
    return tuple([min(d, 2) if isinstance(d, int) else None for d in type_.shape])


def difference(before: Outline, after: Outline) -> str:
    """The first place where two outlines differ, in words; empty if they are equal."""
    if before == after:
        return ""
    for old, new in zip(before[1:], after[1:], strict=False):
        if old != new:
            assert isinstance(old, tuple) and isinstance(new, tuple)
            if old[:2] == new[:2]:
                what = "operands are constant or absent" if old[2] != new[2] else "results have dims of 0 or 1"
                return f"other {what} at {new[1]} '{new[0]}'"
            return f"{new[1]} '{new[0]}' is there instead of {old[1]} '{old[0]}'"
    return "the inputs have dims of 0 or 1 elsewhere" if len(before) == len(after) else "it has another number of nodes"
