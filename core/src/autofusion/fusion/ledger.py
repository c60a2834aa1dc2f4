"""The ledger: one record for each site and rule, always written. Whatever explains, compares or bisects reads it."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


class Verdict(enum.Enum):
    """What became of a site."""

    FUSED = "fused"
    """The rule was applied (a rewrite counts as well)."""
    ILLEGAL = "illegal"
    """The pattern is there, but fusing would change the meaning."""
    NO_KERNEL = "no-kernel"
    """Legal, but no installed kernel pack runs the fused node."""
    UNPROFITABLE = "unprofitable"
    """Legal and possible, but not faster."""
    OVERLAPPED = "overlapped"
    """Another site took one of the nodes."""
    DISABLED = "disabled"
    """Switched off: level, rule switch, site switch, budget."""
    ERROR = "error"
    """The rule raised, or its result did not verify; the graph stayed as it was."""


@dataclass(frozen=True, slots=True)
class Record:
    """One decision. Times are seconds, predicted; ``nodes`` are source-model names (origins): the anchor of a fusion
    first, the nodes of a rewrite in the order of the data.

    ``site`` identifies the place across runs and versions: the first origin name of the anchor, or of a rewrite's root.
    ``rule`` and ``kernel`` carry their pack's version (``conv.epilogue@0.1.0``). ``operators`` are those of the graph
    at that moment; ``fused_node`` names what came of them (the fused node, or the nodes of a rewrite's replacement).
    ``memory_before`` and ``memory_after`` are estimates of a fusion: the most bytes of activations alive while the
    nodes run one by one, and while they run as one.
    """

    rule: str
    verdict: Verdict
    site: str
    nodes: tuple[str, ...]
    stage: str
    operators: tuple[str, ...] = ()
    reason: str = ""
    culprit: str = ""
    hint: str = ""
    kind: str = ""
    kernel: str = ""
    before: float | None = None
    after: float | None = None
    fused_node: str = ""
    memory_before: int | None = None
    memory_after: int | None = None

    @property
    def gain(self) -> float | None:
        """Predicted seconds saved, if both sides were priced."""
        return None if self.before is None or self.after is None else self.before - self.after


@dataclass(slots=True)
class Ledger:
    """All records of one compilation, in the order of the decisions, and the time that each rule took (seconds).

    ``level`` is the fusion level that was asked for; at ``off`` no rule runs, and there is nothing to record.
    ``decided`` says for which sizes the decisions were made, where these are others than those of the plan, or why they
    had to be made for the plan alone.
    """

    records: list[Record] = field(default_factory=list)
    rule_seconds: dict[str, float] = field(default_factory=dict)
    level: str = ""
    decided: list[str] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Append a record."""
        self.records.append(record)

    @staticmethod
    def joined(prepared: Ledger, later: Iterable[Ledger]) -> Ledger:
        """The ledger of a whole compilation: of preparation, then of optimising each part of the prepared graph.

        Optimising asks every rule again about whatever is left, knowing more (static shapes), so what preparation
        only refused is told once, by the last who was asked.
        """
        done = (Verdict.FUSED, Verdict.ERROR)
        parts = list(later)
        whole = Ledger([r for r in prepared.records if not parts or r.verdict in done], level=prepared.level)
        for ledger in (prepared, *parts):
            for rule, seconds in ledger.rule_seconds.items():
                whole.spend(rule, seconds)
        for ledger in parts:
            whole.decided += ledger.decided
            known = set(whole.records)
            whole.records += [record for record in ledger.records if record not in known]
        return whole

    def spend(self, rule: str, seconds: float) -> None:
        """Add to the time of a rule."""
        self.rule_seconds[rule] = self.rule_seconds.get(rule, 0.0) + seconds

    def counts(self) -> dict[str, int]:
        """Number of records for each verdict."""
        counter = Counter(r.verdict.value for r in self.records)
        return {v.value: counter.get(v.value, 0) for v in Verdict}

    def of(self, verdict: Verdict) -> Iterator[Record]:
        """The records with that verdict."""
        return (r for r in self.records if r.verdict is verdict)
