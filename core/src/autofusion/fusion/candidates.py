"""Sites of fuse rules: for one rule and one anchor, the alternatives that the rule offers, priced as far as needed.

A rule yields its regions one by one, the largest first, and nobody looks further than necessary: the next alternative
is only drafted and priced once the one before it is impossible, taken, or does not pay.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.fusion.kernels import Kernels, Priced, UnfusedCost
from autofusion.fusion.ledger import Ledger, Record, Verdict
from autofusion.fusion.records import exception_reason, record
from autofusion.fusion.regions import Draft, Order, draft, locate, sample
from autofusion.fusion.rule_switches import BoundRule, Switches
from autofusion.ir.graph import Graph, Node, Value
from autofusion.plugins.watchdog import Watch
from autofusion.refusal import Refusal
from autofusion.rules.rule import FuseRule, Region

ALTERNATIVES = 16
"""Most regions of one site that are looked at."""
REFUSALS = 1000
"""Most refusals in a row at one site; a rule that goes on has lost its way."""
COMPARED = 3
"""Profitable alternatives among which the best is taken; more is rarely better than the first few, and costs time."""


Nodes = Set[Node]
_NONE: Nodes = frozenset()


class Candidate(NamedTuple):
    """A legal region with a willing kernel that pays: seconds of its nodes alone and fused."""

    draft: Draft
    before: float
    priced: Priced

    @property
    def after(self) -> float:
        """Predicted seconds of the fused node."""
        return self.priced.seconds

    @property
    def saving(self) -> float:
        """Predicted seconds saved; more than 0."""
        return self.before - self.after


@dataclass(slots=True)
class FuseRuleState:
    """A fuse rule in one planning run; ``quarantined`` once it raised."""

    bound: BoundRule
    rule: FuseRule
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What every site of a round needs."""

    graph: Graph
    order: Order
    kernels: Kernels
    switches: Switches
    ledger: Ledger
    compared: set[tuple[str, int]] = field(default_factory=set)
    """(rule, identity of a price): places whose first alternative was the best; repeated blocks are compared once."""
    alone: dict[Node, UnfusedCost] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)

    def of(self, node: Node) -> UnfusedCost:
        """What there is to know of an ordinary node."""
        found = self.alone.get(node)
        if found is None:
            found = self.alone[node] = self.kernels.unfused(node)
        return found

    def price(self, wanted: Draft, alone: Sequence[UnfusedCost]) -> Priced | Refusal:
        """The price of the fused node, which is only made if no other region of that structure has been priced.

        The structure of a region is that of its nodes, and how values connect them. ``alone`` are the nodes by
        themselves.
        """
        numbers: dict[Value | None, int] = {}
        parts: list[Hashable] = [wanted.kind]
        for node, single in zip(wanted.nodes, alone, strict=True):
            parts.append(single.structure_id)
            for values in (node.inputs, node.outputs):
                for value in values:
                    parts.append(numbers.setdefault(value, len(numbers)))
        parts += [numbers[value] for value in wanted.results]
        rule = wanted.rule.rule
        assert isinstance(rule, FuseRule)
        return self.kernels.price_as(tuple(parts), lambda: sample(self.graph, wanted), rule.kind)


class Site:
    """One rule at one anchor."""

    def __init__(self, state: FuseRuleState, anchor: Node, context: PlanningContext) -> None:
        self.state, self.rule, self.anchor = state, state.rule, anchor
        self.notes: dict[Verdict, Record] = {}
        """What there is to tell if nothing better comes of the site: the first of each verdict."""
        self.candidate: Candidate | None = None
        self._context = context
        self._grown: Iterator[Region | Refusal] | None = None
        self._regions = 0
        self._found: list[Candidate] = []
        self._exhausted = False

    def choose(self, taken: Mapping[Node, Site]) -> bool:
        """Set ``candidate`` to the best of what is still free; False if nothing is left."""
        self.candidate = self.best_without(taken.keys())
        return self.candidate is not None

    def discard(self, candidate: Candidate) -> None:
        """Never offer ``candidate`` again."""
        self._found.remove(candidate)

    def best_without(self, taken: Nodes, blocked: Nodes = _NONE) -> Candidate | None:
        """The best of the first few alternatives that need none of the ``taken`` and ``blocked`` nodes."""
        free: list[Candidate] = []
        compared = self._context.compared
        for candidate in self._candidates():
            nodes = candidate.draft.nodes
            if not (taken.isdisjoint(nodes) and blocked.isdisjoint(nodes)):
                continue
            free.append(candidate)
            if len(free) == COMPARED or (self.rule.name, id(free[0].priced)) in compared:
                break
        if not free:
            return None
        best = free[0] if len(free) == 1 else max(free, key=lambda c: c.saving)
        if best is free[0]:
            compared.add((self.rule.name, id(best.priced)))
        return best

    def _candidates(self) -> Iterator[Candidate]:
        yield from self._found
        while not self._exhausted:
            candidate = self._next()
            if candidate is not None:
                self._found.append(candidate)
                yield candidate

    def _next(self) -> Candidate | None:
        """The next alternative that is legal, has a kernel and pays; None otherwise (see ``_exhausted``)."""
        start = time.perf_counter()
        try:
            region = self._region()
            self._exhausted = region is None
            drafted = None if region is None else self._drafted(region)
        except PLUGIN_FAULTS as error:
            require_own(error)
            self._exhausted = True
            self.fail(exception_reason(self.state.bound, error))
            return None
        finally:
            self._context.ledger.spend(self.rule.name, time.perf_counter() - start)
        return None if drafted is None else self._priced(drafted)

    def _region(self) -> Region | None:
        """The rule's next region; its refusals become notes."""
        watch = self._context.watch
        if self._regions == ALTERNATIVES:
            return None
        for _ in range(REFUSALS):
            watch.begin()
            try:
                if self._grown is None:
                    self._grown = iter(self.rule.grow(self.anchor))
                grown = next(self._grown, None)
                watch.end()
            except BaseException as error:
                watch.settle(error)
                raise
            if grown is None:
                return None
            if not isinstance(grown, Refusal):
                self._regions += 1
                return grown
            self.note(Verdict.ILLEGAL, [self.anchor], refusal=grown)
        return None

    def _drafted(self, region: Region) -> Draft | None:
        """The region as a node, if it is free, legal and not switched off."""
        context, bound = self._context, self.state.bound
        if not context.order.group.keys().isdisjoint(region.nodes):
            return None
        drafted = draft(context.graph, region, bound, context.order)
        if isinstance(drafted, Refusal):
            self.note(Verdict.ILLEGAL, region.nodes, refusal=drafted)
            return None
        switched_off = context.switches.refusal(self.rule, drafted.nodes)
        if switched_off is not None:
            self.note(Verdict.DISABLED, drafted.nodes, refusal=switched_off)
            return None
        return drafted

    def _priced(self, drafted: Draft) -> Candidate | None:
        """The draft with its prices, if a kernel runs it and it pays."""
        context = self._context
        alone = [context.of(node) for node in drafted.nodes]
        after = context.price(drafted, alone)
        if isinstance(after, Refusal):
            self.note(Verdict.NO_KERNEL, drafted.nodes, refusal=locate(after, drafted))
            return None
        before = sum([single.seconds for single in alone])
        if before <= after.seconds:
            self.note(Verdict.UNPROFITABLE, drafted.nodes, before=before, after=after.seconds)
            return None
        return Candidate(drafted, before, after)

    # ---- telling ------------------------------------------------------------------------------------------------

    def note(self, verdict: Verdict, nodes: Collection[Node], **more: object) -> None:
        """Keep the first record of a verdict."""
        if verdict not in self.notes:
            self.notes[verdict] = self.make_record(verdict, nodes, **more)

    def make_record(self, verdict: Verdict, nodes: Collection[Node], **more: object) -> Record:
        """A record about this site, the anchor first."""
        ordered = self.in_order(nodes)
        return record(self.state.bound, verdict, self.anchor, ordered, kind=self.rule.kind.name, **more)  # type: ignore[arg-type]

    def in_order(self, nodes: Collection[Node]) -> list[Node]:
        """``nodes``, the anchor first."""
        return [self.anchor, *[node for node in nodes if node is not self.anchor]]

    def fail(self, reason: str) -> None:
        """Quarantine the rule, with an error record."""
        if not self.state.quarantined:
            self.state.quarantined = True
            self._context.ledger.add(self.make_record(Verdict.ERROR, [self.anchor], reason=reason))
