"""What a compilation decided, so that the same graph with other sizes gets it without asking again; see ``replay``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autofusion.fusion.regions import Draft
from autofusion.fusion.rule_switches import BoundRule
from autofusion.fusion.transaction import Applied
from autofusion.ir.graph import Node, Value
from autofusion.rules.pattern import Match


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewrite of ``rule`` at the node named ``root``, which took in ``nodes`` and made others: names, all of them."""

    rule: BoundRule
    root: str
    nodes: tuple[str, ...]
    made: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fused:
    """A region that became a fused node: names of its nodes in topological order, and which values others see (number
    of the node and of its result).
    """

    rule: BoundRule
    anchor: str
    nodes: tuple[str, ...]
    results: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Recipe:
    """Rewrites and fusions, in the order in which they were applied."""

    rewritten: list[Rewritten] = field(default_factory=list)
    fused: list[Fused] = field(default_factory=list)

    def note_rewrite(self, rule: BoundRule, match: Match, applied: Applied) -> None:
        """Record a rewrite."""
        self.rewritten.append(Rewritten(rule, match.root.name, _names(match.nodes), _names(applied.made)))

    def note_fusion(self, draft: Draft) -> None:
        """Record a region that is about to be fused."""
        self.fused.append(Fused(draft.rule, draft.anchor.name, _names(draft.nodes), places(draft.nodes, draft.results)))


def places(nodes: Sequence[Node], results: Iterable[Value]) -> tuple[tuple[int, int], ...]:
    """Number of the node and of its result, for each of ``results``."""
    numbers: dict[Node | None, int] = {node: number for number, node in enumerate(nodes)}
    return tuple([(numbers[value.producer], value.index) for value in results])


def _names(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple([node.name for node in nodes])
