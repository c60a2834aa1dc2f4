"""The places where a rule has something to do: from the author's golden cases, from its pattern, from the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autofusion.errors import AutofusionError
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text
from autofusion.options import Options
from autofusion.rules.rule import RewriteRule, Rule, RulePack
from autofusion.testing.apply import Applied, apply_rules, run_graph_by_reference
from autofusion.testing.corpus import corpus
from autofusion.testing.golden import GoldenCase, golden_cases
from autofusion.testing.graphs import is_open, with_sizes
from autofusion.testing.numbers import ordinary_inputs
from autofusion.testing.patterns import graphs_of

ENOUGH = 6
"""Sites of a rule that are tried; more of them rarely tell more."""
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
    found: dict[tuple[str, ...], Site] = {}
    alone, together = Options(only=frozenset({rule.name})), Options()
    # Some rules only see what others of their pack have made, so what does not fire alone is tried together.
    for options in (alone, together):
        for title, graph in _candidates(rule, golden):
            key = tuple(node.op for node in graph.nodes)
            if key in found:
                continue
            applied = apply_rules(graph, [pack], options)
            # What goes wrong is for the tests to tell.
            if (applied.fired(rule.name) or applied.errors) and _runs(graph):
                found[key] = Site(rule, pack, title, graph, options)
            if len(found) == ENOUGH:
                return list(found.values())
        if found:
            break
    return list(found.values())


def _runs(graph: Graph) -> bool:
    """False for a made-up graph that inference takes, but whose operands make no sense (a shape of floats)."""
    try:
        run_graph_by_reference(graph, ordinary_inputs(graph))
    except AutofusionError:
        return False
    return True


def _candidates(rule: Rule, golden: Iterable[GoldenCase]) -> Iterator[tuple[str, Graph]]:
    for case in golden:
        graph = static_graph(case)
        if graph is not None:
            yield f"golden case '{case}'", graph
    for graph in corpus():
        yield f"network '{graph.name}'", graph
    if isinstance(rule, RewriteRule):
        for index, graph in enumerate(graphs_of(rule, TRIES)):
            yield f"generated spelling {index}", graph
