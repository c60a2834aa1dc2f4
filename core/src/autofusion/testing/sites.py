"""The places where a rule has something to do: from the author's golden cases, from its pattern, from the corpus."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autofusion.ir.graph import Graph, Node
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text
from autofusion.options import Options
from autofusion.rules.rule import RewriteRule, Rule, RulePack
from autofusion.testing.apply import Applied, apply_rules
from autofusion.testing.corpus import corpus
from autofusion.testing.golden import GoldenCase, golden_cases
from autofusion.testing.graphs import is_open, with_sizes
from autofusion.testing.patterns import graphs_of
from autofusion.testing.variants import runs

ENOUGH = 6
"""Sites of a rule that are tried; more of them rarely tell more."""
GENERATED = 2
"""Sites made from the pattern that are tried in any case, however many golden cases there are."""
TRIES = 400


@dataclass(frozen=True, slots=True)
class Site:
    """A graph of static shapes in which ``rule`` fires, under these options (alone, where it does so alone)."""

    rule: Rule
    pack: RulePack
    title: str
    graph: Graph
    options: Options

    def apply(self, graph: Graph | None = None) -> Applied:
        """The rule applied to this graph, or to another one like it."""
        return apply_rules(self.graph if graph is None else graph, [self.pack], self.options)

    def __str__(self) -> str:
        return f"rule '{self.rule.name}' on {self.title}"


def static_graph(case: GoldenCase) -> Graph | None:
    """The graph of a golden case with the sizes that it states, 2 for others."""
    graph = from_text(case.before, SeededConstants())
    infer_graph(graph, bodies=True)
    for node in graph.nodes:
        node.origin = node.origin or (node.name,)
    return with_sizes(graph, case.sizes, 2) if is_open(graph) else graph


def golden_of(folder: Path | str | None) -> list[GoldenCase]:
    """The cases of every ``.ir`` file in a folder."""
    return [] if folder is None else golden_cases(*sorted(Path(folder).glob("*.ir")))


def sites_of(rule: Rule, pack: RulePack, golden: Iterable[GoldenCase]) -> list[Site]:
    """Up to ``ENOUGH`` places for a rule, no two of them alike."""
    found: dict[Hashable, Site] = {}
    alone, together = Options(only=frozenset({rule.name})), Options()
    given = [*_given(golden)]
    # Some rules only see what others of their pack have made, so what does not fire alone is tried together.
    for options in (alone, together):
        for candidates, most in ((given, ENOUGH), (_generated(rule), max(GENERATED, ENOUGH - len(found)))):
            most += len(found) if candidates is not given else 0
            for title, graph in candidates:
                key = tuple(map(_node_key, graph.nodes))
                if key in found:
                    continue
                applied = apply_rules(graph, [pack], options)
                # What goes wrong is for the tests to tell.
                if (applied.fired(rule.name) or applied.errors) and runs(graph):
                    found[key] = Site(rule, pack, title, graph, options)
                if len(found) >= most:
                    break
        if found:
            break
    return list(found.values())


def _node_key(node: Node) -> Hashable:
    """What makes a node another one for a rule: its operator and its attributes."""
    return node.op, repr(sorted((k, v) for k, v in node.attrs.items() if not isinstance(v, Graph)))


def _given(golden: Iterable[GoldenCase]) -> Iterator[tuple[str, Graph]]:
    for case in golden:
        graph = static_graph(case)
        if graph is not None:
            yield f"golden case '{case}'", graph
    for graph in corpus():
        yield f"network '{graph.name}'", graph


def _generated(rule: Rule) -> Iterator[tuple[str, Graph]]:
    if isinstance(rule, RewriteRule):
        for index, graph in enumerate(graphs_of(rule, TRIES)):
            yield f"generated spelling {index}", graph
