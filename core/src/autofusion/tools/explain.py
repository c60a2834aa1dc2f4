"""Say what was fused, what was not and why, and which kernel runs each step: the ledger and the plan, as text or
data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autofusion.errors import OptionError, nearest
from autofusion.fusion.ledger import Record, Verdict
from autofusion.ir.graph import FUSED
from autofusion.lowering.plan import Plan, Step
from autofusion.runtime.session import Session


def as_data(session: Session) -> dict[str, Any]:
    """Everything ``explain`` knows, ready for JSON. Times are seconds."""
    ledger = session.ledger
    return {
        "level": session.context.options.level.name.lower(),
        "threads": session.context.target.threads,
        "counts": ledger.counts(),
        "records": [record_data(r) for r in ledger.records],
        "steps": [step_data(s) for plan in plans(session) for s in plan.steps],
        "arena_bytes": sum(plan.arena_bytes for plan in plans(session)),
        "peak_bytes": max(plan.peak_bytes for plan in plans(session)),
        "rule_seconds": dict(ledger.rule_seconds),
    }


def plans(session: Session) -> list[Plan]:
    """The plan of the last compiled stage, then those of its tails."""
    return [stage.runner.plan for stage in session.stages]


def record_data(record: Record) -> dict[str, Any]:
    """One record as plain data; empty fields are left out."""
    data: dict[str, Any] = {
        "rule": record.rule,
        "verdict": record.verdict.value,
        "site": record.site,
        "nodes": list(record.nodes),
    }
    for name in ("operators", "reason", "culprit", "hint", "kind", "kernel", "before", "after", "fused_node", "stage"):
        value = getattr(record, name)
        if value not in ("", None, ()):
            data[name] = list(value) if isinstance(value, tuple) else value
    return data


def step_data(step: Step) -> dict[str, Any]:
    """One step as plain data."""
    data: dict[str, Any] = {
        "node": step.node.name,
        "operator": step.node.op if step.node.op != FUSED else f"Fused:{step.node.attrs['kind']}",
        "origin": list(step.node.origin),
        "kernel": step.kernel,
        "pack_version": step.pack.version,
        "predicted": step.seconds,
    }
    if step.losers:
        data["lost"] = [{"kernel": k, "predicted": s} for k, s in step.losers]
    if step.refusals:
        data["refused"] = [{"pack": p, "reason": r} for p, r in step.refusals]
    return data


def summary(session: Session) -> list[str]:
    """The short form: counts of verdicts, memory, kernels that are not the fast ones."""
    counts = session.ledger.counts()
    steps = [s for plan in plans(session) for s in plan.steps]
    lines = [
        "verdicts: " + ", ".join(f"{n} {v}" for v, n in counts.items() if n)
        if any(counts.values())
        else "verdicts: none (no rule ran)"
    ]
    lines.append(
        f"steps: {len(steps)}, of which {sum(s.is_reorder for s in steps)} layout changes; "
        f"memory {_bytes(max(p.arena_bytes for p in plans(session)))}"
    )
    slow = sorted({f"{s.node.op}" for s in steps if s.pack.oracle})
    if slow:
        lines.append(f"no fast kernel, reference used for: {', '.join(slow)}")
    return lines


def whole(session: Session) -> list[str]:
    """The long form: every fused site, every refused site, every step with its kernel."""
    lines = [*summary(session), ""]
    records = session.ledger.records
    lines += _section("fused", (r for r in records if r.verdict is Verdict.FUSED and r.kind), _fused)
    lines += _section("rewritten", (r for r in records if r.verdict is Verdict.FUSED and not r.kind), _fused)
    lines += _section("not fused", (r for r in records if r.verdict is not Verdict.FUSED), _refused)
    lines.append("steps:")
    for plan in plans(session):
        for step in plan.steps:
            what = step.node.op if step.node.op != FUSED else f"Fused {step.node.attrs['kind']}"
            lines.append(
                f"  {step.kernel:32} {what:18} {', '.join(step.node.origin) or step.node.name}  ({_time(step.seconds)})"
            )
    return lines


def node(session: Session, name: str) -> list[str]:
    """Everything about one source node: the records that name it and the steps that run it."""
    known = {n for r in session.ledger.records for n in r.nodes} | {
        o for plan in plans(session) for s in plan.steps for o in s.node.origin
    }
    known |= {o for n in session.source.nodes for o in n.origin}
    if name not in known:
        raise OptionError(f"the model has no node '{name}'{nearest(name, known)}")
    lines = [f"{name}:"]
    for record in session.ledger.records:
        if name in record.nodes or record.site == name:
            lines.append("  " + (_fused(record) if record.verdict is Verdict.FUSED else _refused(record)))
    for plan in plans(session):
        for step in plan.steps:
            if name in step.node.origin:
                lines.append(f"  runs in {step.kernel} (pack {step.pack.version}), predicted {_time(step.seconds)}")
                lines += [f"    lost: {kernel}, predicted {_time(seconds)}" for kernel, seconds in step.losers]
                lines += [f"    refused: {pack}: {reason}" for pack, reason in step.refusals]
        for view, how in plan.views:
            if name in view.origin:
                lines.append(f"  costs nothing: {how}")
    return lines


def _section(title: str, records: Iterable[Record], line: Any) -> list[str]:
    lines = [f"  {line(r)}" for r in records]
    return [f"{title} ({len(lines)}):", *lines, ""] if lines else []


def _fused(record: Record) -> str:
    gain = ""
    if record.before is not None and record.after is not None:
        gain = f": {_time(record.before)} -> {_time(record.after)}"
    kernel = f" by {record.kernel}" if record.kernel else ""
    return f"[{record.rule}]{kernel} {' + '.join(record.nodes)}{gain}"


def _refused(record: Record) -> str:
    hint = f" ({record.hint})" if record.hint else ""
    price = ""
    if record.before is not None and record.after is not None:
        price = f" [{_time(record.before)} -> {_time(record.after)}]"
    return f"[{record.rule}] {record.verdict.value}: {record.reason or ' + '.join(record.nodes)}{price}{hint}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
