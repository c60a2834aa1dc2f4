"""Asks kernel packs for offers: the one place, for the planner (is there a kernel, and how fast?) and for lowering.

Tuned packs are asked first, reference packs only if no other pack runs the node. Whatever a pack answers is checked by
its guard, filtered by the user's switches, and priced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autofusion.cost.model import CostModel
from autofusion.cost.signature import exact_structure, type_key
from autofusion.ir.graph import FUSED, Graph, Node
from autofusion.ir.operators import PARAMETER_ELEMENTS
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import KernelPack, Offer, Operand
from autofusion.kernels.evaluation import reference_first
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind, find
from autofusion.offers.guard import GuardedPack, guarded
from autofusion.offers.switches import KernelSwitches
from autofusion.options import Options
from autofusion.refusal import Refusal


class PricedOffer(NamedTuple):
    """An offer of ``pack`` and its seconds, launch included."""

    pack: KernelPack
    offer: Offer
    seconds: float


class PackRefusal(NamedTuple):
    """Why ``pack``, or one of its kernels, does not run a node."""

    pack: KernelPack
    refusal: Refusal

    def __str__(self) -> str:
        return f"pack '{self.pack.name}' {self.pack.version} cannot run it: {self.refusal.reason}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the packs say of one node: their offers, cheapest first, and what was refused."""

    offers: tuple[PricedOffer, ...]
    refusals: tuple[PackRefusal, ...]

    def refusal(self) -> Refusal:
        """All refusals as one, with the first culprit."""
        if not self.refusals:
            return Refusal("no kernel pack is installed")
        said = [r for _, r in self.refusals]
        culprit = next((r.culprit for r in said if r.culprit is not None), None)
        hints = dict.fromkeys(r.hint for r in said if r.hint)
        return Refusal("; ".join(map(str, self.refusals)), culprit, "; ".join(hints))


class Offers:
    """Asks ``packs`` on ``target``. Made for one graph and given up with it: what packs answered is kept.

    A pack is asked once for nodes that are the same in all that it may look at: operator, attributes, types, bodies,
    and the constants themselves. That is so of a fused node that the planner asked about and the one that it made.
    """

    def __init__(
        self, packs: Iterable[KernelPack], target: Target, model: CostModel, switches: KernelSwitches | None = None
    ) -> None:
        given = [guarded(pack) for pack in packs]
        self.packs: Sequence[GuardedPack] = sorted(given, key=reference_first)
        """Reference packs last, this project's before those of others."""
        self.blocks: Sequence[int] = sorted({block for pack in self.packs for block in pack.blocks})
        """Channel blocks of all packs' layouts."""
        self.target, self.model = target, model
        self.switches = switches or KernelSwitches(self.packs, Options())
        self._asked: dict[Hashable, list[_Asked]] = {}
        """Nodes that packs were asked about, by what is quickly seen of them."""

    def ask(self, node: Node, kind: FusedKind | None = None) -> Answer:
        """Every offer for ``node``, cheapest first, and the refusals.

        ``kind`` is that of a fused node as its rule emits it: given one, only packs that implement it are asked, and no
        pack that runs any kind by its body.
        """
        asked = self._find(node)
        found: list[PricedOffer] = []
        refusals: list[PackRefusal] = []
        for pack in self.packs:
            if pack.is_reference and found:
                break
            lacking = None if kind is None else _lacks_kind(pack, kind)
            if lacking is not None and pack.is_reference:
                continue
            answer = lacking or self._answer(pack, asked)
            if isinstance(answer, Refusal):
                refusals.append(PackRefusal(pack, answer))
                continue
            for offer in answer:
                refusal = self._refusal(pack, offer, node)
                if refusal is not None:
                    refusals.append(PackRefusal(pack, refusal))
                else:
                    found.append(self._priced(pack, offer, node))
        return Answer(tuple(sorted(found, key=lambda priced: priced.seconds)), tuple(refusals))

    def find(self, node: Node, pack_name: str, wanted: Callable[[Offer], bool]) -> PricedOffer | None:
        """The first offer for ``node`` of the pack of that name that is ``wanted``, or None; nobody else is asked."""
        for pack in self.packs:
            answer = self._answer(pack, self._find(node)) if pack.name == pack_name else ()
            for offer in () if isinstance(answer, Refusal) else answer:
                if wanted(offer) and self._refusal(pack, offer, node) is None:
                    return self._priced(pack, offer, node)
        return None

    def resized(self, node: Node, offer: Offer, pack_name: str) -> PricedOffer | None:
        """What the pack of that name makes of its ``offer`` for ``node`` now that its sizes have changed; None if it
        has to be asked again.
        """
        for pack in self.packs:
            new = pack.resized(offer, node) if pack.name == pack_name else None
            if new is not None and self._refusal(pack, new, node) is None:
                return PricedOffer(pack, new, self.price(node, new, pack))
        return None

    def offers_of(self, node: Node, pack_name: str) -> Sequence[Offer]:
        """Everything that the pack of that name offers for this very node; empty if it refuses."""
        for pack in self.packs:
            answer = pack.offer(node, self.target) if pack.name == pack_name else ()
            if answer and not isinstance(answer, Refusal):
                return [pack.attributed(offer, node.label) for offer in answer]
        return ()

    def _refusal(self, pack: GuardedPack, offer: Offer, node: Node) -> Refusal | None:
        return pack.quarantined(offer.kernel) or self.switches.refusal(pack, offer, node)

    def _priced(self, pack: GuardedPack, offer: Offer, node: Node) -> PricedOffer:
        offer = pack.attributed(offer, node.label)
        return PricedOffer(pack, offer, self.price(node, offer, pack))

    def price(self, node: Node, offer: Offer, pack: KernelPack) -> float:
        """Seconds that an offer takes, launch included."""
        return self.model.price(node, offer, pack.launch_seconds, is_reference=pack.is_reference).total

    def reorder(self, node: Node, type_: TensorType, source: Operand, result: Operand) -> PricedOffer | None:
        """The first offer to copy a tensor from one layout to another; ``node`` stands for the copy."""
        for pack in self.packs:
            offer = pack.reorder(type_, source, result, self.target)
            if offer is not None:
                return PricedOffer(pack, offer, self.price(node, offer, pack))
        return None

    def _answer(self, pack: GuardedPack, asked: _Asked) -> Sequence[Offer] | Refusal:
        if pack.name not in asked.answers:
            asked.answers[pack.name] = pack.offer(asked.node, self.target)
        return asked.answers[pack.name]

    def _find(self, node: Node) -> _Asked:
        """The node that is the same in all that packs look at, if there is one, or a new entry."""
        if node.op != FUSED and any(isinstance(value, Graph) for value in node.attrs.values()):
            return _Asked(node)  # control flow: its bodies are prepared one by one
        alike = self._asked.setdefault(_outline(node), [])
        new = _Asked(node)
        for asked in alike:
            if asked.structure == new.structure:
                return asked
        alike.append(new)
        if len(node.outputs) > 1:
            _ = new.structure  # now: uses of its results may change later
        return new


class _Asked:
    """A node that packs are asked about, and their answers by name."""

    def __init__(self, node: Node) -> None:
        # A copy: what a pack keeps of the node does not change when the graph around it is rewritten.
        self.node = Node(node.graph, node.op, node.attrs, node.name, node.origin)  # type: ignore[arg-type]
        self.node.inputs, self.node.outputs = list(node.inputs), list(node.outputs)
        self.answers: dict[str, Sequence[Offer] | Refusal] = {}

    @functools.cached_property
    def structure(self) -> Hashable:
        """What decides the answers; only worth its time once there is a node to compare with."""
        return exact_structure(self.node)


def _outline(node: Node) -> Hashable:
    """What tells most nodes apart, in a fraction of the time that the structure takes."""
    inside = [inner.op for inner in node.body.nodes] if node.op == FUSED else []
    weights = [
        id(v.const) for v in node.inputs if v is not None and v.const is not None and v.const.size > PARAMETER_ELEMENTS
    ]
    return (node.op, *inside, *weights, len(node.inputs), *[type_key(value) for value in node.outputs])


def _lacks_kind(pack: GuardedPack, kind: FusedKind) -> Refusal | None:
    implemented = find(pack.kinds, kind.name)
    if implemented is None:
        return Refusal(f"it does not implement kind '{kind.name}'")
    if not implemented.runs(kind):
        has = f"version {implemented.version} of kind '{kind.name}'"
        return Refusal(f"it implements {has}, the rule emits {kind.version}")
    return None
