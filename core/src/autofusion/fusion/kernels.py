"""The planner's view of the kernel packs: what a node costs as the best of them runs it, or why none does.

Fusion only ever asks "is there a kernel, and how fast"; layouts and binding are for lowering. Prices are kept by node
structure, so that the fiftieth copy of a block costs nothing to price.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from autofusion.cost.model import is_free, is_static
from autofusion.cost.signature import structure
from autofusion.ir.graph import FUSED, Node
from autofusion.kinds import FusedKind
from autofusion.offers.ask import Offers
from autofusion.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Priced:
    """The cheapest kernel for a node (with its pack's version; empty where the model stands in) and its seconds."""

    kernel: str
    seconds: float


class UnfusedCost(NamedTuple):
    """An ordinary node: a number that nodes of the same structure share, and its seconds as a step of its own."""

    structure_id: int
    seconds: float


_FREE = Priced("", 0.0)


class Kernels:
    """Prices nodes with what ``offers`` has for them."""

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._known: dict[Hashable, Priced | Refusal] = {}
        self._unfused: dict[Hashable, UnfusedCost] = {}
        """Ordinary nodes by their structure."""

    def price(self, node: Node, kind: FusedKind | None = None) -> Priced | Refusal:
        """The cheapest offer for ``node``. Only a fused node can be refused: an ordinary one runs somehow.

        Nodes of the same structure get the same object, so that its identity stands for the structure.
        ``kind`` is that of a fused node, as its rule emits it.
        """
        if is_free(node):
            return _FREE
        return self.price_as(structure(node), lambda: node, kind)

    def price_as(self, like: Hashable, make: Callable[[], Node], kind: FusedKind | None = None) -> Priced | Refusal:
        """The price of the node that ``make`` makes; not asked to if one of equal structure (``like``) has a price."""
        switches = self._offers.switches
        if switches.have_sites and switches.has_site_switch(node := make()):
            return self._asked(node, kind)
        key = (like, kind)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._asked(make(), kind)
        return known

    def unfused(self, node: Node) -> UnfusedCost:
        """An ordinary node."""
        key = structure(node)
        switches = self._offers.switches
        if switches.have_sites and switches.has_site_switch(node):
            key = (key, node)  # like no other
        known = self._unfused.get(key)
        if known is None:
            priced = _FREE if is_free(node) else self.price_as(key, lambda: node)
            assert isinstance(priced, Priced), f"{node.label} is in a region, so it is an ordinary node"
            known = self._unfused[key] = UnfusedCost(len(self._unfused), priced.seconds)
        return known

    def _asked(self, node: Node, kind: FusedKind | None) -> Priced | Refusal:
        fused = node.op == FUSED
        if not is_static(node):
            return Refusal("its types are not static") if fused else self._modelled(node)
        answer = self._offers.ask(node, (kind or FusedKind(str(node.attrs["kind"]))) if fused else None)
        if answer.offers:
            best = answer.offers[0]
            return Priced(f"{best.offer.kernel}@{best.pack.version}", best.seconds)
        return answer.refusal() if fused else self._modelled(node)

    def _modelled(self, node: Node) -> Priced:
        return Priced("", self._offers.model.price(node).total)
