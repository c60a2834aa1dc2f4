"""The rules of installed packs where they fire: what other spellings leave, and whether near-misses stay right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autofusion.ir.graph import Graph
from autofusion.options import Options
from autofusion.rules.rule import Rule, RulePack
from autofusion.testing import numbers
from autofusion.testing.apply import apply_rules, run_graph_by_reference
from autofusion.testing.coverage.spell import respelled
from autofusion.testing.graphs import is_open, near_misses, spellings
from autofusion.testing.sites import sites_of


@dataclass(frozen=True, slots=True)
class RuleCoverage:
    """One rule: its sites, their spellings, in how many of these it fires, and what went wrong.

    A spelling that another rule of the packs brings into the rule's own form counts, since all packs are asked.
    """

    rule: str
    sites: int
    spellings: int
    fired: int
    missed: tuple[str, ...]
    wrong: tuple[str, ...]


def rule_coverage(packs: Sequence[RulePack], names: Iterable[str] = ()) -> list[RuleCoverage]:
    """Every rule of the packs, or those of ``names``, beside all of them."""
    wanted = set(names)
    return [_coverage(rule, pack, packs) for pack in packs for rule in pack.rules if not wanted or rule.name in wanted]


def _coverage(rule: Rule, pack: RulePack, packs: Sequence[RulePack]) -> RuleCoverage:
    sites, count, fired = sites_of(rule, pack, ()), 0, 0
    missed: list[str] = []
    wrong: list[str] = []
    for site in sites:
        steps = _left(site.graph, packs)
        for what, graph in (*spellings(site.graph), *respelled(site.graph)):
            count += 1
            if _left(graph, packs) <= steps:
                fired += 1
            else:
                missed.append(f"{site}, {what}")
        for what, graph in near_misses(site.graph):
            said = "" if is_open(graph) else _difference(graph, packs)
            if said:
                wrong.append(f"{site}, {what}: {said}")
    return RuleCoverage(rule.name, len(sites), count, fired, tuple(missed), tuple(wrong))


def _left(graph: Graph, packs: Sequence[RulePack]) -> int:
    """Nodes that are left where every legal fusion is taken."""
    return len(apply_rules(graph, packs, Options()).graph)


def _difference(graph: Graph, packs: Sequence[RulePack]) -> str:
    feeds = numbers.ordinary_inputs(graph)
    found = run_graph_by_reference(apply_rules(graph, packs).graph, feeds)
    return numbers.all_differences(found, run_graph_by_reference(graph, feeds), graph.output_names)


def rule_lines(covered: Sequence[RuleCoverage]) -> list[str]:
    """The rules as a table, and what was missed or wrong."""
    out = [f"{'rule':40}{'sites':>7}{'spellings':>12}"]
    out += [f"{one.rule:40}{one.sites:>7}{f'{one.fired}/{one.spellings}':>12}" for one in covered]
    told = [f"  {what}" for one in covered for what in one.missed]
    out += ["", "more is left of:", *told] if told else []
    told = [f"  {what}" for one in covered for what in one.wrong]
    return out + (["", "wrong:", *told] if told else [])
