"""The rewrite engine: applies rewrite rules to a fixed point, in time linear in the size of the graph.

Nodes wait in a worklist, at first in topological order. A rewrite puts its new nodes at the front, and at the back
whatever could match because of it: the nodes downstream, as far as the deepest pattern reaches, and the consumers of
values that lost a use. No node is looked at again without a cause, so that the time does not depend on how many
rounds the rules need.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping

import numpy as np

from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.fusion import transaction
from autofusion.fusion.ledger import Ledger, Record, Verdict
from autofusion.fusion.matcher import Matcher, Prefilter
from autofusion.fusion.recipe import Recipe
from autofusion.fusion.records import exception_reason, record, rule_level_record
from autofusion.fusion.rule_switches import BoundRule, Switches
from autofusion.ir.graph import Graph, Node, Value
from autofusion.plugins.watchdog import Watch
from autofusion.refusal import Refusal
from autofusion.rules.facts import arrow
from autofusion.rules.pattern import Match, Miss, Pattern
from autofusion.rules.rule import RewriteRule, Stage

GENERATIONS = 32
"""A node all of whose ancestors are rewrites of rewrites, this many times over, is going in circles."""
REWRITES_PER_NODE = 20
"""Number budget of a stage, per node of the graph."""
FEW_USES = 8
"""A value with more uses than this cannot be inside a pattern, so losing one changes nothing."""

_UNTOUCHED = (0, "")
"""Lineage of a node that the model came with."""

_prepared: dict[int, tuple[Pattern, Matcher]] = {}


def prepared(pattern: Pattern) -> Matcher:
    """The matcher of ``pattern``, made once."""
    entry = _prepared.get(id(pattern))
    if entry is None or entry[0] is not pattern:
        entry = _prepared[id(pattern)] = (pattern, Matcher(pattern))
    return entry[1]


class _Entry:
    """A rule with its matcher."""

    __slots__ = ("bound", "matcher", "quarantined", "rule", "seconds")

    def __init__(self, bound: BoundRule, rule: RewriteRule, matcher: Matcher) -> None:
        self.bound, self.rule, self.matcher = bound, rule, matcher
        self.quarantined = False
        self.seconds = 0.0


class Rewriter:
    """Runs one stage over one graph, and writes its ledger, and the recipe if there is one to write."""

    def __init__(
        self,
        graph: Graph,
        stage: Stage,
        switches: Switches,
        ledger: Ledger,
        time_budget: float,
        recipe: Recipe | None = None,
        without: Mapping[str, Record] | None = None,
    ) -> None:
        self._recipe, self._without = recipe, without or {}
        self._watch = Watch()
        self.diverged: dict[str, Record] = {}
        """Rules that went in circles: whoever began with a copy does better to begin again without them."""
        self._growth: Counter[str] = Counter()
        """Rule -> nodes that it added, on the whole, where it rewrote what had been rewritten."""
        self._graph, self._switches, self._ledger = graph, switches, ledger
        self._deadline = time.perf_counter() + time_budget
        self._budget_s = time_budget
        self._entries: list[_Entry] = []
        self._disabled: list[_Entry] = []
        self._open: dict[tuple[str, Node], Record] = {}
        """Refusals and switched-off sites that stand as long as nothing changes around them."""
        self._lineage: dict[Node, tuple[int, str]] = {}
        """Made nodes: their generation, and the rule that made them."""
        for bound in switches.rules():
            if isinstance(bound.rule, RewriteRule) and bound.rule.stage is stage:
                self._add(bound, bound.rule)
        self._by_root = _index(self._entries)
        self._reach = max((entry.matcher.depth for entry in self._entries), default=0)

    def _add(self, bound: BoundRule, rule: RewriteRule) -> None:
        if rule.name in self._without:
            self._ledger.add(self._without[rule.name])
            return
        try:
            entry = _Entry(bound, rule, prepared(rule.pattern))
        except PLUGIN_FAULTS as error:
            require_own(error)
            self._ledger.add(rule_level_record(bound, Verdict.ERROR, exception_reason(bound, error)))
            return
        (self._disabled if bound.disabled_by else self._entries).append(entry)

    def run(self) -> int:
        """Rewrite to the fixed point; return the number of rewrites. Rules check the numbers that they compute, so that
        NumPy need not warn of overflow and the like.
        """
        self._graph.sort()
        with np.errstate(all="ignore"):
            count = self._rewrite()
            self._finish()
        return count

    def _rewrite(self) -> int:
        graph, by_root = self._graph, self._by_root
        queue = deque(graph.nodes)
        pending = set(queue)
        limit = REWRITES_PER_NODE * len(graph) + 1000
        count = 0
        while queue:
            node = queue.popleft()
            pending.discard(node)
            entries = by_root.get(node.op)
            if entries is None or node.graph is not graph:
                continue
            applied = self._visit(node, entries)
            if applied is None:
                continue
            count += 1
            if count >= limit or time.perf_counter() > self._deadline:
                self._stop(count, limit)
                break
            for new in reversed(applied.made):
                pending.add(new)
                queue.appendleft(new)
            for affected in self._affected(applied):
                if affected not in pending:
                    pending.add(affected)
                    queue.append(affected)
        if count:
            graph.sort()
        return count

    # ---- one node -------------------------------------------------------------------------------------------

    def _visit(self, node: Node, entries: Iterable[tuple[_Entry, Prefilter]]) -> transaction.Applied | None:
        start = time.perf_counter()
        for entry, prefilter in entries:
            if entry.quarantined:
                continue
            applied = None
            try:
                applied = self._watched(entry, prefilter, node)
            except PLUGIN_FAULTS as error:
                require_own(error)
                self._quarantine(entry, node, exception_reason(entry.bound, error))
            now = time.perf_counter()
            entry.seconds += now - start
            start = now
            if applied is not None:
                return applied
        return None

    def _watched(self, entry: _Entry, prefilter: Prefilter, node: Node) -> transaction.Applied | None:
        applied = None
        self._watch.begin()
        try:
            if prefilter(node):
                applied = self._try(entry, node)
            elif self._open:
                self._open.pop((entry.rule.name, node), None)
            self._watch.end()
        except BaseException as error:
            self._watch.settle(error)
            raise
        return applied

    def _try(self, entry: _Entry, node: Node) -> transaction.Applied | None:
        found = self._decide(entry, node)
        if isinstance(found, Record):
            self._open[(entry.rule.name, node)] = found
            return None
        if self._open:
            self._open.pop((entry.rule.name, node), None)
        if found is None or self._circles(entry, found):
            return None
        generation = 1 + min([self._lineage.get(n, _UNTOUCHED)[0] for n in found.nodes])
        applied = transaction.apply(entry.rule, found, self._graph)
        if isinstance(applied, Refusal):
            nodes = _data_order(found.nodes)
            self._open[(entry.rule.name, node)] = record(entry.bound, Verdict.ILLEGAL, node, nodes, refusal=applied)
            return None
        if self._recipe is not None:
            self._recipe.note_rewrite(entry.bound, found, applied)
        self._keep_better_refusals(entry, node)
        if generation > 1:
            self._growth[entry.rule.name] += len(applied.made) - len(applied.removed)
        for made in applied.made:
            self._lineage[made] = (generation, entry.bound.label)
        for gone in applied.removed:
            self._lineage.pop(gone, None)
        names = ", ".join([made.name for made in applied.made])
        self._ledger.add(record(entry.bound, Verdict.FUSED, node, _data_order(found.nodes), fused_node=names))
        return applied

    def _keep_better_refusals(self, entry: _Entry, node: Node) -> None:
        """What kept rules of higher priority off the node stays worth telling: this rewrite is the second best."""
        for other, _ in self._by_root[node.op] if self._open else ():
            if other.bound.priority <= entry.bound.priority:
                break
            kept = self._open.pop((other.rule.name, node), None)
            if kept is not None and kept.verdict is Verdict.ILLEGAL:
                self._ledger.add(kept)

    def _decide(self, entry: _Entry, node: Node) -> Match | Record | None:
        """A match that may be rewritten, the record of a refusal, or None if the pattern is not there."""
        match = entry.matcher.find(node)
        if match is None:
            return None
        if isinstance(match, Miss):
            refusal = Refusal(match.reason, match.culprit, match.hint).at(arrow(*_data_order(match.nodes)))
            return record(entry.bound, Verdict.ILLEGAL, node, _data_order(match.nodes), refusal=refusal)
        nodes = _data_order(match.nodes)
        switched_off = entry.bound.disabled_by or self._switches.refusal(entry.rule, match.nodes)
        if switched_off is None:
            return match
        illegal = transaction.refusal_of(entry.rule, match, self._graph)
        if illegal is not None:
            return record(entry.bound, Verdict.ILLEGAL, node, nodes, refusal=illegal)
        return record(entry.bound, Verdict.DISABLED, node, nodes, refusal=switched_off)

    def _circles(self, entry: _Entry, match: Match) -> bool:
        """True, and a rule is quarantined, if everything here has been rewritten over and over.

        The one to blame is the one that makes the graph grow, if there is one: others only clear up behind it.
        """
        lineage = [self._lineage.get(node, _UNTOUCHED) for node in match.nodes]
        if min(lineage)[0] < GENERATIONS:
            return False
        others = sorted({label for _, label in lineage if label})
        most = max(self._growth.values(), default=0)
        if self._growth[entry.rule.name] < most:
            entry = next(e for e in self._entries if self._growth[e.rule.name] == most)
        reason = (
            f"rule '{entry.rule.name}' of pack '{entry.bound.pack.name}' {entry.bound.pack.version} goes in circles: "
            f"{match.root.label} is the {GENERATIONS}th rewrite in a row, made by {', '.join(others)}"
        )
        self._quarantine(entry, match.root, reason)
        self.diverged[entry.rule.name] = self._ledger.records[-1]
        return True

    def _quarantine(self, entry: _Entry, node: Node, reason: str) -> None:
        entry.quarantined = True
        self._ledger.add(record(entry.bound, Verdict.ERROR, node, [node], reason=reason))

    # ---- what follows from a rewrite ----------------------------------------------------------------------------

    def _affected(self, applied: transaction.Applied) -> Iterable[Node]:
        """Nodes whose match may have changed."""
        seen = dict.fromkeys(applied.redirected)
        level = [value for nodes in (applied.redirected, applied.made) for node in nodes for value in node.outputs]
        loosened = [value for value in applied.loosened if value.use_count <= FEW_USES]
        level += loosened
        for _ in range(self._reach):
            reached: list[Value] = []
            for value in level:
                for consumer, _index in value._uses:
                    if consumer not in seen:
                        seen[consumer] = None
                        reached += consumer.outputs
            level = reached
        for value in loosened:
            if value.producer is not None:
                seen.setdefault(value.producer, None)
        for node in applied.made:
            seen.pop(node, None)
        return seen

    # ---- the end ------------------------------------------------------------------------------------------------

    def _stop(self, count: int, limit: int) -> None:
        which = f"number budget of {limit} rewrites" if count >= limit else f"time budget of {self._budget_s:g} s"
        for entry in self._entries:
            reason = f"the stage stopped at its {which}; sites may be left"
            self._ledger.add(rule_level_record(entry.bound, Verdict.DISABLED, reason))

    def _finish(self) -> None:
        by_root = _index(self._disabled)
        if by_root:
            for node in self._graph.nodes:
                for entry, prefilter in by_root.get(node.op, ()):
                    self._note_disabled(entry, prefilter, node)
        self._ledger.records += [r for (_, node), r in self._open.items() if node in self._graph]
        for entry in (*self._entries, *self._disabled):
            self._ledger.spend(entry.rule.name, entry.seconds)

    def _note_disabled(self, entry: _Entry, prefilter: Prefilter, node: Node) -> None:
        if entry.quarantined or time.perf_counter() > self._deadline:
            return
        start = time.perf_counter()
        try:
            found = self._decide(entry, node) if prefilter(node) else None
            if isinstance(found, Record) and found.verdict is Verdict.DISABLED:
                self._open[(entry.rule.name, node)] = found
        except PLUGIN_FAULTS as error:
            require_own(error)
            self._quarantine(entry, node, exception_reason(entry.bound, error))
        entry.seconds += time.perf_counter() - start


def _index(entries: Iterable[_Entry]) -> dict[str, list[tuple[_Entry, Prefilter]]]:
    by_root: dict[str, list[tuple[_Entry, Prefilter]]] = {}
    for entry in entries:
        for op in sorted(entry.matcher.roots):
            by_root.setdefault(op, []).append((entry, entry.matcher.prefilter(op)))
    return by_root


def _data_order(nodes: Iterable[Node]) -> list[Node]:
    """Matched nodes, root first, in the order in which the data passes them (as far as a list can say it)."""
    return list(nodes)[::-1]
