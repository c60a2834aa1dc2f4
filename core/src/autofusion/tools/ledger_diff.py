"""Compare two ledgers: which sites were lost, gained or changed between two levels, pack versions, models or machines.

A fused site is known by its anchor. One that is gone but whose anchor, or at least some of whose nodes, are fused at
another site has moved there, which is a change and no loss. Rewrites and refusals are known by rule and place.
Predicted times are compared, but a change of time alone is none of the sites': two machines would differ everywhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autofusion.errors import ModelError
from autofusion.fusion.ledger import Verdict
from autofusion.ir.graph import FUSED
from autofusion.lowering.plan import REORDER
from autofusion.tools import words

Data = Mapping[str, Any]
"""A ledger as ``explain --json`` writes it."""

_FUSED = Verdict.FUSED.value


@dataclass(frozen=True, slots=True)
class Change:
    """One site in both ledgers (``a`` and ``b`` are records as data, None where there is none).

    ``fields`` maps what differs to the two values.
    """

    site: str
    a: Data | None
    b: Data | None
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LedgerDiff:
    """``lost`` and ``gained`` are fused sites, ``rewrites_*`` and ``verdicts`` everything else that differs."""

    names: tuple[str, str]
    predicted: tuple[float, float]
    peak_bytes: tuple[int, int]
    lost: list[Change]
    gained: list[Change]
    changed: list[Change]
    rewrites_lost: list[Change]
    rewrites_gained: list[Change]
    verdicts: list[Change]
    same: int
    kernels: list[Change] = field(default_factory=list)
    """Nodes that nothing fuses on either side, and that another kernel runs; ``a`` and ``b`` are steps as data."""

    @property
    def is_empty(self) -> bool:
        """True if the same is fused in the same way on both sides, for the same reasons."""
        lists = (self.lost, self.gained, self.changed, self.rewrites_lost, self.rewrites_gained, self.verdicts)
        return not (self.kernels or any(lists))


def read(path: Path) -> Data:
    """A ledger from a file that ``explain --json`` wrote; ModelError if it is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(r, dict) and {"rule", "verdict", "site"} <= r.keys() for r in data["records"]):
            raise KeyError("records")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"'{path}' is not a ledger: expected the JSON that 'autofusion explain MODEL --json' prints "
            f"({type(error).__name__}: {error})"
        ) from error
    found: Data = data
    return found


def diff(a: Data, b: Data, names: tuple[str, str] = ("a", "b")) -> LedgerDiff:
    """What differs between the ledgers ``a`` and ``b``."""
    fused_a, fused_b = _sites(a), _sites(b)
    told_a, told_b = _by_rule_and_site(a), _by_rule_and_site(b)
    inside_a, inside_b = _inside(fused_a.values()), _inside(fused_b.values())
    lost, gained, changed, same = [], [], [], 0
    met: set[str] = set()
    for site, record in fused_a.items():
        other = fused_b.get(site) or _home(record, inside_b)
        if other is None:
            lost.append(Change(site, record, _told(record, told_b)))
            continue
        met.add(other["site"])
        fields = _fields(record, other)
        same += not fields
        if fields:
            changed.append(Change(site, record, other, fields))
    for site, record in fused_b.items():
        if site in met:
            continue
        other = _home(record, inside_a)
        if other is None:
            gained.append(Change(site, _told(record, told_a), record))
        else:
            changed.append(Change(site, other, record, _fields(other, record)))
    return LedgerDiff(
        names,
        (_predicted(a), _predicted(b)),
        (int(a.get("peak_bytes", 0)), int(b.get("peak_bytes", 0))),
        lost,
        gained,
        changed,
        [Change(r["site"], r, told_b.get(k)) for k, r in told_a.items() if _rewrite(r) and not _rewrite(told_b.get(k))],
        [Change(r["site"], told_a.get(k), r) for k, r in told_b.items() if _rewrite(r) and not _rewrite(told_a.get(k))],
        list(_verdicts(told_a, told_b)),
        same,
        list(_kernels(_single(a), _single(b))),
    )


def _sites(data: Data) -> dict[str, Data]:
    return {r["site"]: r for r in data["records"] if r["verdict"] == _FUSED and r.get("kind")}


def _inside(records: Iterable[Data]) -> dict[str, Data]:
    return {name: r for r in records for name in r["nodes"]}


def _home(record: Data, inside: Mapping[str, Data]) -> Data | None:
    """The site of the other side that has the anchor, or else any of the nodes."""
    return next((inside[name] for name in (record["site"], *record["nodes"]) if name in inside), None)


def _rule_name(record: Data) -> str:
    return str(record["rule"]).split("@")[0]


def _by_rule_and_site(data: Data) -> dict[tuple[str, str], Data]:
    """For each rule and place the record that counts: the fused one, else the last."""
    found: dict[tuple[str, str], Data] = {}
    for record in data["records"]:
        key = (_rule_name(record), record["site"])
        if found.get(key, record)["verdict"] != _FUSED or record["verdict"] == _FUSED:
            found[key] = record
    return found


def _told(record: Data, others: Mapping[tuple[str, str], Data]) -> Data | None:
    """What the other ledger says about the place: of the same rule, else of any rule that was refused there."""
    same = others.get((_rule_name(record), record["site"]))
    return same or next((r for (_, site), r in others.items() if site == record["site"]), None)


def _rewrite(record: Data | None) -> bool:
    return record is not None and record["verdict"] == _FUSED and not record.get("kind")


def _predicted(data: Data) -> float:
    return float(data.get("predicted") or sum(s["predicted"] for s in data.get("steps", ())))


def _fields(a: Data, b: Data) -> dict[str, tuple[Any, Any]]:
    fields: dict[str, tuple[Any, Any]] = {
        name: (a.get(name), b.get(name)) for name in ("site", "rule", "kernel", "kind") if a.get(name) != b.get(name)
    }
    if set(a["nodes"]) != set(b["nodes"]):
        fields["nodes"] = (list(a["nodes"]), list(b["nodes"]))
    return fields


def _single(data: Data) -> dict[tuple[Any, ...], Data]:
    """The steps that are not fused, by operator and what they stand for (the same node may take several steps)."""
    found: dict[tuple[Any, ...], Data] = {}
    counts: Counter[tuple[Any, ...]] = Counter()
    for step in data.get("steps", ()):
        key = (step["operator"], *(step.get("origin") or (step["node"],)))
        if not step["operator"].startswith(f"{FUSED}:"):
            found[(*key, counts[key])] = step
            counts[key] += 1
    return found


def _kernels(a: Mapping[tuple[Any, ...], Data], b: Mapping[tuple[Any, ...], Data]) -> Iterable[Change]:
    """Nodes that another kernel runs, and layout changes that only one side needs."""
    for key in dict.fromkeys((*a, *b)):
        old, new = a.get(key), b.get(key)
        kernels = tuple(None if step is None else step["kernel"] for step in (old, new))
        is_copy = key[0] == REORDER
        if kernels[0] != kernels[1] and (is_copy or None not in kernels):
            yield Change(str(key[1]), old, new, {"kernel": (kernels[0], kernels[1])})


def _verdicts(told_a: Mapping[tuple[str, str], Data], told_b: Mapping[tuple[str, str], Data]) -> Iterable[Change]:
    """Places that neither side fused by that rule, and about which the two say different things."""
    for key in dict.fromkeys((*told_a, *told_b)):
        a, b = told_a.get(key), told_b.get(key)
        if any(r is not None and r["verdict"] in (_FUSED, Verdict.OVERLAPPED.value) for r in (a, b)):
            continue
        fields = {
            name: (None if a is None else a.get(name), None if b is None else b.get(name))
            for name in ("verdict", "reason")
            if a is None or b is None or a.get(name) != b.get(name)
        }
        if fields:
            yield Change(key[1], a, b, fields)


# ---- telling ----------------------------------------------------------------------------------------------------


def as_data(found: LedgerDiff) -> dict[str, Any]:
    """The difference as plain data."""
    return {**asdict(found), "is_empty": found.is_empty}


def lines(found: LedgerDiff, most: int = 40) -> list[str]:
    """The difference as text; at most ``most`` entries of each kind."""
    a, b = found.names
    rows = [f"from {a} to {b}"]
    if all(found.predicted):
        rows.append(f"predicted: {words.time(found.predicted[0])} -> {words.time(found.predicted[1])}")
    if all(found.peak_bytes):
        rows.append(f"memory alive at most: {words.size(found.peak_bytes[0])} -> {words.size(found.peak_bytes[1])}")
    rows.append(
        f"fused sites: {found.same} the same, {len(found.lost)} lost, {len(found.gained)} gained, "
        f"{len(found.changed)} changed"
    )
    rows += _part("lost", [_one(c.a, c.b) for c in found.lost], most)
    rows += _part("gained", [_one(c.b, c.a) for c in found.gained], most)
    rows += _part("changed", _changed(found.changed), most)
    rows += _part("other kernel", _changed(found.kernels), most)
    rows += _part("rewrites lost", [_one(c.a, c.b) for c in found.rewrites_lost], most)
    rows += _part("rewrites gained", [_one(c.b, c.a) for c in found.rewrites_gained], most)
    rows += _part("refused for another reason", [_verdict(c) for c in found.verdicts], most)
    return [*rows, "", "nothing differs"] if found.is_empty else rows


def _part(title: str, entries: list[str], most: int) -> list[str]:
    if not entries:
        return []
    more = [f"  and {len(entries) - most} more (see --json)"] if len(entries) > most else []
    return ["", f"{title} ({len(entries)}):", *(f"  {entry}" for entry in entries[:most]), *more]


def _one(fused: Data | None, other: Data | None) -> str:
    assert fused is not None
    kernel = f" by {fused['kernel']}" if fused.get("kernel") else ""
    text = f"'{fused['site']}' [{fused['rule']}]{kernel}: {' + '.join(fused['nodes'])}"
    if other is not None and other["verdict"] != _FUSED:
        why = f"{other['verdict']}: {other['reason']}" if other.get("reason") else other["verdict"]
        return f"{text}\n      on the other side [{other['rule']}] {why}"
    return text


def _changed(changes: list[Change]) -> list[str]:
    """One entry for a change that many sites share (a new version), one for each site otherwise."""
    shared: dict[tuple[Any, ...], list[str]] = {}
    entries = []
    for change in changes:
        if set(change.fields) <= {"rule", "kernel", "kind"}:
            shared.setdefault(tuple(sorted(change.fields.items())), []).append(change.site)
        else:
            entries.append(f"'{change.site}': {_told_fields(change.fields)}")
    for fields, sites in shared.items():
        places = ", ".join(sites[:3]) + (f" and {len(sites) - 3} more" if len(sites) > 3 else "")
        entries.append(f"{words.counted(len(sites), 'site')}: {_told_fields(dict(fields))} ({places})")
    return entries


def _told_fields(fields: Mapping[str, tuple[Any, Any]]) -> str:
    told = []
    for name, (a, b) in fields.items():
        if name == "nodes":
            without, added = [n for n in a if n not in b], [n for n in b if n not in a]
            parts = [f"without {' + '.join(without)}"] if without else []
            told.append("nodes: " + ", ".join([*parts, *([f"and also {' + '.join(added)}"] if added else [])]))
        elif name == "site":
            told.append(f"now anchored at '{b}'")
        else:
            told.append(f"{name} {a or 'none'} -> {b or 'none'}")
    return "; ".join(told)


def _verdict(change: Change) -> str:
    record = change.b or change.a
    assert record is not None

    def said(data: Data | None) -> str:
        return "nothing" if data is None else f"{data['verdict']}: {data.get('reason', '')}"

    return f"'{change.site}' [{record['rule']}] {said(change.a)} -> {said(change.b)}"
