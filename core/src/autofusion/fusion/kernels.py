"""The planner's view of the kernel packs: what a node costs as the best of them runs it, or why none does.

Fusion only ever asks "is there a kernel, and how fast"; layouts and binding are for lowering. Answers are kept by node
signature, so that the fiftieth copy of a block costs nothing to price.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autofusion.cost.model import CostModel, is_free, is_static
from autofusion.cost.signature import structure
from autofusion.errors import PLUGIN_FAULTS
from autofusion.fusion.kernel_switches import KernelSwitches
from autofusion.ir.graph import FUSED, Node
from autofusion.kernels.contract import KernelPack, Offer
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind, find
from autofusion.options import Options
from autofusion.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Priced:
    """The cheapest kernel for a node (with its pack's version; empty where the model stands in) and its seconds."""

    kernel: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Unwilling:
    """Why no pack runs a fused node."""

    reason: str


class Alone(NamedTuple):
    """An ordinary node: a number that nodes of the same structure share, and its seconds as a step of its own."""

    number: int
    seconds: float


_FREE = Priced("", 0.0)


class Kernels:
    """Prices nodes with ``packs`` on ``target``, without the kernels that ``switches`` leave out."""

    def __init__(
        self,
        packs: Sequence[KernelPack],
        target: Target,
        model: CostModel,
        switches: KernelSwitches | None = None,
    ) -> None:
        self._packs, self._target, self._model = packs, target, model
        self._switches = switches or KernelSwitches(packs, Options())
        self._known: dict[Hashable, Priced | Unwilling] = {}
        self._alone: dict[Hashable, Alone] = {}
        """Ordinary nodes by their structure."""

    def price(self, node: Node, kind: FusedKind | None = None) -> Priced | Unwilling:
        """The cheapest offer for ``node``. Only a fused node can be refused: an ordinary one runs somehow.

        Nodes of the same structure get the same object, so that its identity stands for the structure.
        ``kind`` is that of a fused node, as its rule emits it.
        """
        if is_free(node):
            return _FREE
        return self.price_as(structure(node), lambda: node, kind)

    def price_as(self, like: Hashable, make: Callable[[], Node], kind: FusedKind | None = None) -> Priced | Unwilling:
        """The price of the node that ``make`` makes; not asked to if one of equal structure (``like``) has a price."""
        if self._switches.have_sites and self._switches.singles_out(node := make()):
            return self._asked(node, kind)
        key = (like, kind)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._asked(make(), kind)
        return known

    def alone(self, node: Node) -> Alone:
        """An ordinary node."""
        key = structure(node)
        if self._switches.have_sites and self._switches.singles_out(node):
            key = (key, node)  # like no other
        known = self._alone.get(key)
        if known is None:
            priced = self.price(node)
            assert isinstance(priced, Priced), f"{node.label} is in a region, so it is an ordinary node"
            known = self._alone[key] = Alone(len(self._alone), priced.seconds)
        return known

    def _asked(self, node: Node, kind: FusedKind | None) -> Priced | Unwilling:
        if not is_static(node):
            return Unwilling("its types are not static") if node.op == FUSED else self._modelled(node)
        return self._fused(node, kind) if node.op == FUSED else self._ordinary(node)

    def _modelled(self, node: Node) -> Priced:
        return Priced("", self._model.price(node).total)

    def _ordinary(self, node: Node) -> Priced:
        for oracle in (False, True):
            offers = [
                priced for pack in self._packs if pack.oracle is oracle for priced in self._offers(pack, node, [])
            ]
            if offers:
                return min(offers, key=lambda priced: priced.seconds)
        return self._modelled(node)

    def _fused(self, node: Node, kind: FusedKind | None) -> Priced | Unwilling:
        kind = kind or FusedKind(str(node.attrs["kind"]))
        offers: list[Priced] = []
        refusals: list[str] = []
        for pack in self._packs:
            implemented = find(pack.kinds, kind.name)
            if implemented is None:
                if not pack.oracle:
                    refusals.append(f"pack '{pack.name}' {pack.version} does not implement kind '{kind.name}'")
                continue
            if not implemented.runs(kind):
                refusals.append(
                    f"pack '{pack.name}' {pack.version} implements version {implemented.version} of kind "
                    f"'{kind.name}', the rule emits {kind.version}"
                )
                continue
            offers += self._offers(pack, node, refusals)
        if offers:
            return min(offers, key=lambda priced: priced.seconds)
        return Unwilling("; ".join(refusals) or f"no installed kernel pack implements kind '{kind.name}'")

    def _offers(self, pack: KernelPack, node: Node, refusals: list[str]) -> list[Priced]:
        try:
            answer: Sequence[Offer] | Refusal = pack.offer(node, self._target)
        except PLUGIN_FAULTS as error:  # a broken pack is one that does not offer
            refusals.append(f"pack '{pack.name}' {pack.version} raised {type(error).__name__}: {error}")
            return []
        if not isinstance(answer, Sequence):
            refusals.append(f"pack '{pack.name}' {pack.version} cannot run it: {answer.reason}")
            return []
        priced = []
        for offer in answer:
            off = self._switches.refusal(pack, offer, node)
            if off:
                refusals.append(f"pack '{pack.name}' {pack.version}: {off}")
                continue
            seconds = self._model.price(node, offer, pack.launch_seconds, oracle=pack.oracle).total
            priced.append(Priced(f"{offer.kernel}@{pack.version}", seconds))
        return priced
