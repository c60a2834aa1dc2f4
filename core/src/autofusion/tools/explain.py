"""Say what was fused, what was not and why, and which kernel runs each step: the ledger and the plan, as text or
data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from autofusion.errors import OptionError, nearest
from autofusion.fusion.ledger import Record, Verdict
from autofusion.ir.graph import FUSED, Node
from autofusion.lowering.plan import Plan, Step
from autofusion.runtime.control import ControlPack
from autofusion.runtime.session import Session
from autofusion.tools import words

_OPTIONAL = (
    "operators", "reason", "culprit", "hint", "kind", "kernel", "before", "after", "fused_node", "stage",
    "memory_before", "memory_after",
)  # fmt: skip
_SOME = 3
"""Places that are named where only their number matters."""


def plans(session: Session) -> list[Plan]:
    """The plan of the last compiled stage, then those of its tails and of control-flow bodies."""
    return [stage.runner.plan for stage in session.stages]


def peak_bytes(session: Session) -> int:
    """Largest number of bytes of activations alive at once, over all plans."""
    return max((plan.peak_bytes for plan in plans(session)), default=0)


def arena_bytes(session: Session) -> int:
    """Bytes that all plans set aside for activations."""
    return sum(plan.arena_bytes for plan in plans(session))


# ---- data -------------------------------------------------------------------------------------------------------


def as_data(session: Session, baseline: Session | None = None) -> dict[str, Any]:
    """Everything ``explain`` knows, ready for JSON. Times are seconds.

    ``baseline`` is the same model at level off; its steps, time and memory are told as ``before``.
    """
    ledger = session.ledger
    steps = [s for plan in plans(session) for s in plan.steps]
    return {
        "model": session.source.name,
        "level": session.context.options.level.name.lower(),
        "threads": session.context.target.threads,
        "counts": ledger.counts(),
        "records": [record_data(r) for r in ledger.records],
        "steps": [step_data(s) for s in steps],
        **_totals(session),
        **({} if baseline is None else {"before": {"steps": _step_count(baseline), **_totals(baseline)}}),
        "sizes": list(ledger.decided),
        "memory_budget": session.context.options.memory_budget,
        "rule_seconds": dict(ledger.rule_seconds),
    }


def _totals(session: Session) -> dict[str, Any]:
    return {
        "predicted": sum(s.seconds for plan in plans(session) for s in plan.steps),
        "arena_bytes": arena_bytes(session),
        "peak_bytes": peak_bytes(session),
    }


def _step_count(session: Session) -> int:
    return sum(len(plan.steps) for plan in plans(session))


def record_data(record: Record) -> dict[str, Any]:
    """One record as plain data; empty fields are left out."""
    data: dict[str, Any] = {
        "rule": record.rule,
        "verdict": record.verdict.value,
        "site": record.site,
        "nodes": list(record.nodes),
    }
    for name in _OPTIONAL:
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
    if refusals(step):
        data["refused"] = [{"pack": p, "reason": r} for p, r in refusals(step)]
    return data


def refusals(step: Step) -> list[tuple[str, str]]:
    """(pack, reason) of the packs that would not run the step; that core's own runs control flow only goes unsaid."""
    return [(pack.name, refusal.reason) for pack, refusal in step.refusals if pack.name != ControlPack.name]


# ---- the whole model as text ------------------------------------------------------------------------------------


def summary(session: Session, baseline: Session | None = None) -> list[str]:
    """The short form: counts of verdicts, steps, memory, kernels that are not the fast ones."""
    counts = session.ledger.counts()
    steps = [s for plan in plans(session) for s in plan.steps]
    told = ", ".join(f"{n} {v}" for v, n in counts.items() if n)
    lines = [f"verdicts: {told}" if told else "verdicts: none (no rule ran)"]
    lines += [f"sizes: {said}" for said in session.ledger.decided]
    was = "" if baseline is None else f"{_step_count(baseline)} at level off -> "
    lines.append(f"steps: {was}{len(steps)}, of which {sum(s.is_reorder for s in steps)} layout changes")
    peak = words.size(peak_bytes(session))
    memory = f"memory: {words.size(arena_bytes(session))} for activations, at most {peak} alive"
    if baseline is not None:
        memory += f" (level off: {words.size(arena_bytes(baseline))}, {words.size(peak_bytes(baseline))} alive)"
        before, after = _totals(baseline)["predicted"], _totals(session)["predicted"]
        lines.append(f"predicted: {words.time(before)} at level off -> {words.time(after)}")
    lines.append(memory)
    budget = session.context.options.memory_budget
    if budget is not None:
        lines.append(f"memory budget: {words.size(budget)}, {_kept(peak_bytes(session), budget)}")
    slow = sorted({f"{s.node.op}" for s in steps if s.pack.is_reference})
    if slow:
        lines.append(f"no fast kernel, reference used for: {', '.join(slow)}")
    return lines


def _kept(peak: int, budget: int) -> str:
    if peak <= budget:
        return "kept"
    return f"exceeded by {words.size(peak - budget)}: a budget refuses fusions that lift the peak, and cannot do more"


def whole(session: Session, baseline: Session | None = None) -> list[str]:
    """The long form: every fused site, what was rewritten, every refused site, every step with its kernel."""
    records = session.ledger.records
    fused = sorted((r for r in records if r.verdict is Verdict.FUSED and r.kind), key=lambda r: -(r.gain or 0.0))
    lines = [*summary(session, baseline), ""]
    lines += _section("fused, by predicted gain", [line for r in fused for line in _fused(r)], len(fused))
    rewritten = [r for r in records if r.verdict is Verdict.FUSED and not r.kind]
    lines += _section("rewritten", list(_counted(rewritten)), len(rewritten))
    overlapped = [r for r in records if r.verdict is Verdict.OVERLAPPED]
    refused = [r for r in records if r.verdict not in (Verdict.FUSED, Verdict.OVERLAPPED)]
    lines += _section("not fused", [line for r in refused for line in _refused(r)], len(refused))
    lines += _section("lost their nodes to another site", list(_counted(overlapped)), len(overlapped))
    lines.append("steps:")
    for plan in plans(session):
        for step in plan.steps:
            place = ", ".join(step.node.origin) or step.node.name
            lines.append(f"  {step.kernel:32} {_what(step.node):18} {place}  ({words.time(step.seconds)})")
    return lines


def _section(title: str, lines: list[str], count: int) -> list[str]:
    return [f"{title} ({count}):", *(f"  {line}" for line in lines), ""] if count else []


def _counted(records: Iterable[Record]) -> Iterator[str]:
    by_rule = groupby(sorted(records, key=lambda r: r.rule), key=lambda r: r.rule)
    told = [(rule, [r.site for r in group]) for rule, group in by_rule]
    for rule, sites in sorted(told, key=lambda row: -len(row[1])):
        more = f" and {len(sites) - _SOME} more" if len(sites) > _SOME else ""
        yield f"{len(sites):4}x {rule}: {', '.join(sites[:_SOME])}{more}"


def _what(node: Node) -> str:
    return node.op if node.op != FUSED else f"Fused {node.attrs['kind']}"


def _gain(record: Record) -> str:
    if record.before is None or record.after is None:
        return ""
    text = f"predicted {words.time(record.before)} -> {words.time(record.after)}"
    if record.memory_before is not None and record.memory_after is not None:
        text += f", memory alive {words.size(record.memory_before)} -> {words.size(record.memory_after)}"
    return text


def _fused(record: Record) -> Iterator[str]:
    kernel = f" by {record.kernel}" if record.kernel else ""
    yield f"[{record.rule}]{kernel} at '{record.site}'" + (f": {_gain(record)}" if _gain(record) else "")
    yield f"    {' + '.join(record.nodes)}"


def _refused(record: Record) -> Iterator[str]:
    yield f"[{record.rule}] {record.verdict.value} at '{record.site}': {record.reason or ' + '.join(record.nodes)}"
    if record.culprit:
        yield f"    at fault: '{record.culprit}'"
    if record.hint:
        yield f"    {record.hint}"
    if _gain(record):
        yield f"    {_gain(record)}"


# ---- one place as text ------------------------------------------------------------------------------------------


def node(session: Session, name: str) -> list[str]:
    """Everything about one source node, site or fused node, or about one rule: the records and steps that name it.

    Raises OptionError, with the nearest names, for one that the model and the rules do not have.
    """
    records = session.ledger.records
    sources = {o: n for n in session.source.nodes for o in (n.origin or (n.name,))}
    known = {n for r in records for n in (*r.nodes, r.site, *r.fused_node.split(", "))} | sources.keys()
    known |= {n for plan in plans(session) for s in plan.steps for n in (s.node.name, *s.node.origin)}
    known.discard("")
    rules = {b.split("@")[0] for b in (*session.ledger.rule_seconds, *(r.rule for r in records))}
    if name in rules and name not in known:
        return _rule(session, name)
    if name not in known:
        raise OptionError(f"the model has no node '{name}'{nearest(name, known | rules)}")
    lines = [f"{name}:"]
    if name in sources:
        lines.append(f"  {_signature(sources[name])}")
    about = [r for r in records if name in r.nodes or r.site == name or name in r.fused_node.split(", ")]
    fused = [r for r in about if r.verdict is Verdict.FUSED and r.kind]
    rewritten = [r for r in about if r.verdict is Verdict.FUSED and not r.kind]
    others = [r for r in about if r.verdict is not Verdict.FUSED]
    lines += _part("rewritten by", (f"[{r.rule}] {' + '.join(r.nodes)}" for r in rewritten))
    lines += _part("fused by", (line for r in fused for line in _fused(r)))
    lines += _part("not fused by", (line for r in others for line in _refused(r)))
    lines += _part("beside it are" if about else "no rule found a site with it; beside it are", _beside(session, name))
    lines += _runs(session, name)
    return lines


def _rule(session: Session, name: str) -> list[str]:
    about = [r for r in session.ledger.records if r.rule.split("@")[0] == name]
    seconds = session.ledger.rule_seconds.get(name, 0.0)
    lines = [f"rule {name}: {words.counted(len(about), 'record')}, {words.time(seconds)} of matching"]
    lines += _part("applied", (line for r in about if r.verdict is Verdict.FUSED for line in _fused(r)))
    lines += _part("not applied", (line for r in about if r.verdict is not Verdict.FUSED for line in _refused(r)))
    return lines


def _part(title: str, lines: Iterable[str]) -> list[str]:
    found = [f"    {line}" for line in lines]
    return [f"  {title}:", *found] if found else []


def _signature(source: Node) -> str:
    operands = ", ".join("-" if v is None else f"{v.name} {v.type}" for v in source.inputs)
    return f"{source.op}({operands}) -> {', '.join(f'{v.name} {v.type}' for v in source.outputs)}"


def _beside(session: Session, name: str) -> Iterator[str]:
    """What feeds and what reads the node ``name`` in the plan: where to look for what a site would need."""
    nodes = [node for plan in plans(session) for node in plan.graph.nodes if name in (*node.origin, node.name)]
    for node in nodes:
        for value in node.inputs:
            if value is None or value.producer is None:
                continue
            others = [_called(c) for c in value.consumers if c is not node]
            also = f", read by {', '.join(others[:_SOME])} as well" if others else ""
            yield f"'{value.name}' from {_called(value.producer)}{also}"
        for value in node.outputs:
            readers = [_called(c) for c in value.consumers] + ["the model's output"] * value.is_output
            if readers:
                yield f"'{value.name}' for {', '.join(readers[:_SOME])}"


def _called(node: Node) -> str:
    return f"{_what(node)} '{node.origin[0] if node.origin else node.name}'"


def _slower(step: Step) -> Iterator[str]:
    """The offers that lost, each kernel once; those of the kernel that won differ in their layouts."""
    best: dict[str, float] = {}
    for kernel, seconds in step.losers:
        best[kernel] = min(seconds, best.get(kernel, seconds))
    for kernel, seconds in best.items():
        which = f"slower: {kernel}" if kernel != step.kernel else "in other layouts"
        yield f"    {which}, predicted {words.time(seconds)}"


def _runs(session: Session, name: str) -> list[str]:
    lines = []
    for plan in plans(session):
        for step in plan.steps:
            if name not in (*step.node.origin, step.node.name):
                continue
            others = [o for o in step.node.origin if o != name]
            beside = f" with {words.counted(len(others), 'other node')}" if others and not step.is_reorder else ""
            lines.append(
                f"  runs{beside} in {step.kernel} (pack {step.pack.version}), predicted {words.time(step.seconds)}"
            )
            lines += _slower(step)
            lines += [f"    refused by {pack}: {reason}" for pack, reason in refusals(step)]
        for view, how in plan.views:
            if name in view.origin:
                lines.append(f"  costs nothing: {how}")
    return lines or ["  not run: its results are constants for these shapes, or part of what replaced it"]
