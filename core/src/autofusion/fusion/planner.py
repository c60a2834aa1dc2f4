"""The fuse stage: from all legal, runnable, profitable regions, a set without overlap that saves most.

A priority queue on predicted saving. When two sites want the same node, the better one gets it and the other falls
back to its next alternative, except where several smaller sites together, with what is left for the large one, save
more than the large one with what is left for them (look-ahead of one choice). What remains is tried again on the
resulting graph, where rules see the chosen fused nodes as borders, until a round finds nothing more.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Mapping

from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.fusion.candidates import Candidate, FuseRuleState, PlanningContext, Site
from autofusion.fusion.kernels import Kernels
from autofusion.fusion.ledger import Ledger, Record, Verdict
from autofusion.fusion.memory import live_bytes, peak_bytes
from autofusion.fusion.recipe import Recipe
from autofusion.fusion.records import exception_reason, origins, record, rule_level_record, site_of
from autofusion.fusion.regions import Order, commit
from autofusion.fusion.rule_switches import Switches
from autofusion.ir import operators
from autofusion.ir.graph import FUSED, Graph, Node
from autofusion.options import Options
from autofusion.refusal import Refusal
from autofusion.rules.rule import FuseRule, Region

ROUNDS = 8
RIVALS = 8
"""Most sites that are weighed together against one larger site."""


class Planner:
    """Plans and applies the fusions of one graph, whose types must be static where anything is to be fused."""

    def __init__(
        self,
        graph: Graph,
        switches: Switches,
        kernels: Kernels,
        options: Options,
        ledger: Ledger,
        recipe: Recipe | None = None,
    ) -> None:
        self.recipe = recipe
        self._graph, self._switches, self._kernels, self._ledger = graph, switches, kernels, ledger
        self._options = options
        self._deadline = time.perf_counter() + options.time_budget
        self._active: list[FuseRuleState] = []
        self._disabled: list[FuseRuleState] = []
        for bound in switches.rules():
            if isinstance(bound.rule, FuseRule):
                state = FuseRuleState(bound, bound.rule)
                (self._disabled if bound.disabled_by else self._active).append(state)
        self._open: dict[tuple[str, Node, Verdict], Record] = {}
        """(rule, anchor, verdict) -> what stands if nothing better comes of the site."""
        self._inside: dict[Node, tuple[Node, Record]] = {}
        """Fused node's former node -> the anchor and the record of that fusion."""

    def run(self) -> int:
        """Fuse to the fixed point; return the number of fused nodes made."""
        self._graph.sort()
        self._note_disabled()
        made = 0
        for _ in range(ROUNDS):
            chosen = _Round(self, self._graph, self._active).run()
            made += len(chosen)
            if not chosen or self.out_of_time():
                break
        if self.out_of_time():
            reason = f"the stage stopped at its time budget of {self._options.time_budget:g} s; sites may be left"
            for state in self._active:
                self._ledger.add(rule_level_record(state.bound, Verdict.DISABLED, reason))
        self._ledger.records += [r for (_, anchor, _), r in self._open.items() if self._still_relevant(anchor, r)]
        return made

    def out_of_time(self) -> bool:
        """True once the time budget is spent."""
        return time.perf_counter() > self._deadline

    @property
    def options(self) -> Options:
        """The user's options."""
        return self._options

    def planning_context(self, order: Order) -> PlanningContext:
        """What the sites of a round work with."""
        return PlanningContext(self._graph, order, self._kernels, self._switches, self._ledger)

    def defer_record(self, site: Site, extra: Record | None = None) -> None:
        """Keep what a site has to tell until it is known what becomes of its anchor."""
        for told in site.notes.values():
            self._open[(told.rule, site.anchor, told.verdict)] = told
        if extra is not None:
            self._open[(extra.rule, site.anchor, extra.verdict)] = extra

    def commit_record(self, site: Site, nodes: Iterable[Node], told: Record) -> None:
        """Record a fusion."""
        self.defer_record(site)
        self._ledger.add(told)
        for node in nodes:
            self._inside[node] = (site.anchor, told)

    def _still_relevant(self, anchor: Node, told: Record) -> bool:
        """False if a remark about a site has lost its point because of what its anchor has become part of."""
        if anchor not in self._inside:
            return True
        fused_at, fused = self._inside[anchor]
        if told.verdict is Verdict.OVERLAPPED:
            return told.rule != fused.rule
        # The site was fused: what stopped a larger region is worth telling, what the smaller one was spared is not.
        return (told.rule, anchor) == (fused.rule, fused_at) and told.verdict is not Verdict.UNPROFITABLE

    def _note_disabled(self) -> None:
        """One record for each place where a rule that is switched off would have found something."""
        for state in self._disabled:
            covered: set[Node] = set()
            start = time.perf_counter()
            for node in self._graph.nodes:
                if state.quarantined or node in covered or not _is_root(state.rule, node):
                    continue
                try:
                    region = next((r for r in state.rule.grow(node) if isinstance(r, Region)), None)
                except PLUGIN_FAULTS as error:
                    require_own(error)
                    state.quarantined = True
                    self._ledger.add(
                        record(state.bound, Verdict.ERROR, node, [node], reason=exception_reason(state.bound, error))
                    )
                    break
                if region is not None:
                    covered.update(region.nodes)
                    self._ledger.add(
                        record(
                            state.bound,
                            Verdict.DISABLED,
                            node,
                            [node, *(n for n in region.nodes if n is not node)],
                            refusal=state.bound.disabled_by,
                            kind=state.rule.kind.name,
                        )
                    )
                if self.out_of_time():
                    break
            self._ledger.spend(state.rule.name, time.perf_counter() - start)


class _Round:
    """One pass over the sorted graph: collect the sites, choose, commit."""

    def __init__(self, planner: Planner, graph: Graph, states: Iterable[FuseRuleState]) -> None:
        self._planner, self._graph = planner, graph
        self._order = Order(graph)
        self._states = list(states)
        self._taken: dict[Node, Site] = {}
        self._chosen: list[tuple[Site, Candidate]] = []
        self._wanted: dict[Node, dict[Site, None]] = {}
        """Node -> sites whose current candidate has it."""
        self._queue: list[tuple[int, float, int, Site]] = []
        self._pushed = 0

    def run(self) -> list[Node]:
        """The fused nodes made."""
        for site in self._sites():
            self._push(site)
        while self._queue:
            site = heapq.heappop(self._queue)[-1]
            if self._planner.out_of_time():
                self._out_of_time(site)
                continue
            self._consider(site)
        return self._commit()

    def _sites(self) -> Iterable[Site]:
        by_op: dict[str, list[FuseRuleState]] = {FUSED: []}
        context = self._planner.planning_context(self._order)
        seen: set[tuple[str, frozenset[Node]]] = set()
        for node in self._graph.nodes:
            states = by_op.get(node.op)
            if states is None:
                states = by_op[node.op] = _rooted(self._states, node)
            for state in states:
                if state.quarantined or self._planner.out_of_time():
                    continue
                site = Site(state, node, context)
                if not site.choose(self._taken):
                    self._planner.defer_record(site)
                    continue
                assert site.candidate is not None
                # Every node of a pointwise region may be an anchor, and all of them find the same region.
                key = (state.rule.name, frozenset(site.candidate.draft.nodes))
                if key not in seen:
                    seen.add(key)
                    yield site

    def _push(self, site: Site) -> None:
        assert site.candidate is not None
        for node in site.candidate.draft.nodes:
            self._wanted.setdefault(node, {})[site] = None
        heapq.heappush(self._queue, (-site.state.bound.priority, -site.candidate.saving, self._pushed, site))
        self._pushed += 1

    def _withdraw(self, site: Site) -> None:
        assert site.candidate is not None
        for node in site.candidate.draft.nodes:
            self._wanted[node].pop(site, None)

    # ---- choosing -------------------------------------------------------------------------------------------------

    def _consider(self, site: Site) -> None:
        candidate = site.candidate
        assert candidate is not None
        self._withdraw(site)
        if site.state.quarantined:
            return
        blocker = next(filter(None, map(self._taken.get, candidate.draft.nodes)), None)
        if blocker is None and not self._still_convex(candidate):
            site.discard(candidate)
            blocker = self._chosen[-1][0]
        if blocker is not None:
            if site.choose(self._taken):
                self._push(site)
            else:
                self._planner.defer_record(site, self._overlapped(site, candidate, blocker))
            return
        refusal = self._too_much_memory(site, candidate)
        if refusal is not None:
            self._planner.defer_record(site, refusal)
            return
        rivals = self._better_rivals(site, candidate)
        for rival in rivals:
            assert rival.candidate is not None
            self._withdraw(rival)
            self._take(rival, rival.candidate)
        if rivals:
            self._push(site)  # it finds its nodes taken, and falls back
        else:
            self._take(site, candidate)

    def _take(self, site: Site, candidate: Candidate) -> None:
        for node in candidate.draft.nodes:
            self._taken[node] = site
        self._order.choose(candidate.draft)
        self._chosen.append((site, candidate))

    def _still_convex(self, candidate: Candidate) -> bool:
        """A region with several results was convex when it was drafted; what has been chosen since may close a loop."""
        draft = candidate.draft
        return len(draft.results) == 1 or self._order.nonconvex_through(draft.nodes) is None

    def _better_rivals(self, site: Site, candidate: Candidate) -> list[Site]:
        """Sites that overlap ``candidate`` and, chosen in its place, save more in all; usually none."""
        nodes = set(candidate.draft.nodes)
        rivals = dict.fromkeys(
            other
            for node in candidate.draft.nodes
            for other in self._wanted.get(node, ())
            if other.state.bound.priority == site.state.bound.priority and not other.state.quarantined
        )
        disjoint: list[Site] = []
        covered: set[Node] = set()
        for other in sorted(rivals, key=_saving, reverse=True)[:RIVALS]:
            assert other.candidate is not None
            theirs = other.candidate.draft.nodes
            if not any(n in covered or n in self._taken for n in theirs) and len(other.candidate.draft.results) == 1:
                disjoint.append(other)
                covered.update(theirs)
        together = sum(map(_saving, disjoint))
        if len(disjoint) < 2 or together <= candidate.saving:
            return []
        left_for_rivals = sum(
            left.saving for other in disjoint if (left := other.best_without(self._taken.keys(), nodes)) is not None
        )
        left_for_site = site.best_without(self._taken.keys(), covered)
        alternative = together + (left_for_site.saving if left_for_site is not None else 0.0)
        return disjoint if alternative > candidate.saving + left_for_rivals else []

    def _too_much_memory(self, site: Site, candidate: Candidate) -> Record | None:
        budget = self._planner.options.memory_budget
        if budget is None:
            return None
        now = peak_bytes(self._graph, self._order.group)
        planned: Mapping[Node, tuple[Node, ...]] = {
            **self._order.group,
            **dict.fromkeys(candidate.draft.nodes, candidate.draft.nodes),
        }
        then = peak_bytes(self._graph, planned)
        if then <= budget or then <= now:
            return None
        reason = f"memory budget of {budget} bytes: live activations would peak at {then} bytes, not {now}"
        return site.make_record(
            Verdict.DISABLED, candidate.draft.nodes, reason=reason, before=candidate.before, after=candidate.after
        )

    # ---- telling and committing -------------------------------------------------------------------------------------

    def _overlapped(self, site: Site, candidate: Candidate, by: Site) -> Record | None:
        if by.rule is site.rule and site.anchor in self._taken:
            return None  # the anchor has been fused by this very rule, from another anchor
        taker = site_of(by.anchor)
        return site.make_record(
            Verdict.OVERLAPPED,
            candidate.draft.nodes,
            refusal=Refusal(
                f"by {by.state.bound.label} at '{taker}'",
                by.anchor,
                f"would get its turn with --disable-site {by.rule.name}:{taker}",
            ),
            before=candidate.before,
            after=candidate.after,
        )

    def _out_of_time(self, site: Site) -> None:
        candidate = site.candidate
        assert candidate is not None
        reason = f"time budget of {self._planner.options.time_budget:g} s"
        self._planner.defer_record(
            site,
            site.make_record(
                Verdict.DISABLED, candidate.draft.nodes, reason=reason, before=candidate.before, after=candidate.after
            ),
        )

    def _commit(self) -> list[Node]:
        if not self._chosen:
            return []
        made = []
        before = live_bytes(self._graph, {})
        after = live_bytes(self._graph, self._order.group)
        for site, candidate in self._chosen:
            if self._planner.recipe is not None:
                self._planner.recipe.note_fusion(candidate.draft)
            node = commit(self._graph, candidate.draft)
            made.append(node)
            nodes = site.in_order(candidate.draft.nodes)
            told = Record(
                rule=site.state.bound.label,
                verdict=Verdict.FUSED,
                site=site_of(site.anchor),
                nodes=origins(nodes),
                stage=site.rule.stage.value,
                operators=tuple([n.op for n in nodes]),
                kind=site.rule.kind.name,
                kernel=candidate.priced.kernel,
                before=candidate.before,
                after=candidate.after,
                fused_node=node.name,
                memory_before=max([before[n] for n in nodes]),
                memory_after=after[site.anchor],
            )
            self._planner.commit_record(site, nodes, told)
        self._graph.sort()
        return made


def _saving(site: Site) -> float:
    return site.candidate.saving if site.candidate is not None else 0.0


def _is_root(rule: FuseRule, node: Node) -> bool:
    return node.op in rule.roots or operators.op_class(node) in rule.root_classes


def _rooted(states: Iterable[FuseRuleState], node: Node) -> list[FuseRuleState]:
    """The rules for nodes of that operator, those that name it before those that name its class."""
    rooted = [state for state in states if _is_root(state.rule, node)]
    return sorted(rooted, key=lambda state: node.op not in state.rule.roots)
