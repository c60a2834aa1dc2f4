"""Kernels and layouts that were chosen for a graph, found again for the same graph with other sizes.

Only the pack whose kernel was chosen is asked, and its offer of the same kernel in the same layouts is taken. Where it
does not make that offer for these sizes, the node is chosen for as if nothing were known of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autofusion.ir.graph import Graph, Node
from autofusion.kernels.contract import Layout, Offer
from autofusion.lowering.concat import ConcatInPlace, concats_in_place
from autofusion.lowering.select import Candidate, Choice, Selector
from autofusion.lowering.views import Alias, aliases
from autofusion.offers.ask import Offers, PackRefusal
from autofusion.refusal import Refusal

Layouts = tuple[Layout | None, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The pack (empty: no kernel is needed), kernel and layouts of a node's step; what lost, with seconds, and who
    refused.
    """

    pack: str
    kernel: str
    layouts: Layouts
    losers: tuple[tuple[str, float], ...]
    refusals: tuple[PackRefusal, ...]

    def matches(self, way: Offer | Alias | ConcatInPlace) -> bool:
        """True for the same kernel in the same layouts."""
        return way.kernel == self.kernel and _layouts(way) == self.layouts


def choose(graph: Graph, offers: Offers, known: Mapping[str, Chosen] | None = None) -> dict[Node, Choice]:
    """The choice for every node of ``graph``, those ``known`` (by node name) taken over where they can be.

    Raises KernelError if no pack runs some node.
    """
    return Selector(graph, offers, _recalled(graph, offers, known) if known else {}).run()


def remember(choices: Mapping[Node, Choice]) -> dict[str, Chosen]:
    """What there is to know of choices, without offers and culprits, which hold on to their nodes."""
    return {
        node.name: Chosen(
            choice.chosen.pack.name if choice.chosen.pack is not None else "",
            choice.chosen.way.kernel,
            _layouts(choice.chosen.way),
            choice.losers,
            tuple([PackRefusal(pack, Refusal(said.reason, None, said.hint)) for pack, said in choice.refusals]),
        )
        for node, choice in choices.items()
    }


def _recalled(graph: Graph, offers: Offers, known: Mapping[str, Chosen]) -> dict[Node, Choice]:
    found: dict[Node, Choice] = {}
    for node in graph.nodes:
        chosen = known.get(node.name)
        candidate = None if chosen is None else recall(node, chosen, offers)
        if chosen is not None and candidate is not None:
            found[node] = Choice(candidate, chosen.losers, chosen.refusals)
    return found


def recall(node: Node, chosen: Chosen, offers: Offers) -> Candidate | None:
    """What was chosen for ``node`` with other sizes, for its sizes of now; None if that is not to be had."""
    if chosen.pack:
        priced = offers.find(node, chosen.pack, chosen.matches)
        return None if priced is None else Candidate(*priced)
    ways: list[Alias | ConcatInPlace] = [*aliases(node, offers.blocks), *concats_in_place(node, offers.blocks)]
    for way in ways:
        if chosen.matches(way):
            return Candidate(None, way, 0.0)
    return None


def _layouts(way: Offer | Alias | ConcatInPlace) -> Layouts:
    return tuple([None if o is None else o.layout for o in (*way.inputs, *way.outputs)])
