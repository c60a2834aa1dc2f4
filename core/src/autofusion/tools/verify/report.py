"""What a verification found: the verdict, the problems, and the report as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofusion.tools.child import OK, Ended

SHOWN = 8
"""Sites that the text lists if all are fine: the ones nearest to their limit."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something beyond its threshold: the step (``sites``, ``outputs``, ``repeats``, ``constants``, ``quarantined``,
    ``speed``, ``metrics``, or how the run ended), where, and what.
    """

    step: str
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome: ``ok`` if the run ended well and nothing is beyond its threshold. ``data`` is the JSON report."""

    data: dict[str, Any]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """True if there is no problem."""
        return not self.problems


def report_of(ended: Ended, metric_tolerance: float) -> Report:
    """Judge what the child process left behind."""
    data: dict[str, Any] = dict(ended.result or {})
    data |= {"status": ended.status, "seconds": ended.seconds}
    problems = [*_ending(ended), *_problems(data, metric_tolerance)]
    data["ok"] = not problems
    data["problems"] = [{"step": p.step, "where": p.where, "what": p.what} for p in problems]
    if ended.status != OK:
        data |= {"detail": ended.detail, "doing": ended.doing, "log": ended.log}
    return Report(data, tuple(problems))


def _ending(ended: Ended) -> Iterator[Problem]:
    if ended.status != OK:
        yield Problem(ended.status, ended.doing, ended.detail)


def _problems(data: Mapping[str, Any], metric_tolerance: float) -> Iterator[Problem]:
    for row in data.get("sites", ()):
        if row["reason"]:
            by = f"{row['rule']} by {row['kernel']}" if row["rule"] else row["kernel"]
            yield Problem("sites", row["site"], f"{row['reason']} ({by}, case {row['case'] or 'any'})")
    for row in data.get("outputs", ()):
        if row["reason"]:
            yield Problem("outputs", row["output"], f"{row['reason']} (case {row['case']})")
    for row in data.get("repeats", ()):
        if row["different"]:
            what = f"{row['different']} of {row['runs']} runs on the same inputs gave other outputs"
            yield Problem("repeats", row["case"], what)
    for name in data.get("constants", ()):
        yield Problem("constants", name, "its bytes changed while the model ran: a kernel writes into its operands")
    for row in data.get("quarantined", ()):
        what = f"quarantined, and other kernels took its place: {row['reason']} (version {row['version']})"
        yield Problem("quarantined", row["kernel"], what)
    for row in data.get("speed", ()):
        if row["reason"]:
            yield Problem("speed", row["site"], f"{row['reason']} ({row['rule']} by {row['kernel']})")
    for row in data.get("metrics", ()):
        if "fused" in row and abs(row["fused"] - row["reference"]) > metric_tolerance:
            what = f"{row['fused']:.6f} fused, {row['reference']:.6f} in the reference, over {row['samples']} samples"
            yield Problem("metrics", row["metric"], what)


# ---- text ----------------------------------------------------------------------------------------------------------


def lines(report: Report) -> list[str]:
    """The report as text: the verdict, each step, the notes."""
    data = report.data
    head = f"{data.get('model', '?')}, level {data.get('level', '?')}, {data.get('threads', '?')} threads"
    result = [f"{head}, against {data.get('against', '?')}"]
    for case in data.get("cases", ()):
        shapes = " ".join(f"{n}:{','.join(map(str, s))}" for n, s in case["shapes"].items())
        result.append(
            f"  case {case['case']}: {shapes}" + (f" - skipped: {case['skipped']}" if case["skipped"] else "")
        )
    result += ["", *_site_lines(data.get("sites", ())), ""]
    result += [line for row in data.get("outputs", ()) for line in _output_lines(row)]
    for row in data.get("repeats", ()):
        same = f"{row['different']} differ" if row["different"] else "all the same to the last bit"
        result.append(f"repeats, case {row['case']}: {row['runs']} runs, {same}")
    result += _speed_lines(data.get("speed", ()))
    for row in data.get("metrics", ()):
        result.append(
            f"metric {row['metric']}: {row['fused']:.6f} fused, {row['reference']:.6f} in the reference "
            f"({row['samples']} samples)"
        )
    result += [f"note: {note}" for note in data.get("notes", ())]
    result.append("")
    if report.ok:
        result.append("verified: nothing is beyond its threshold")
    else:
        result.append(f"NOT verified, {len(report.problems)} problems:")
        result += [f"  {p.step} {p.where}: {p.what}" for p in report.problems]
        result.append(f"what does it: autofusion bisect{_check(report)}, with the same model and options")
    return result


def _check(report: Report) -> str:
    """The option of ``bisect`` that looks for what was found: for more than speed or a metric it needs none."""
    first = min(report.problems, key=lambda p: p.step in ("speed", "metrics"))
    return {"speed": " --check speed", "metrics": f" --check {first.where}"}.get(first.step, "")


def _site_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    fused = [r for r in rows if r["kind"]]
    bad = [r for r in rows if r["reason"]]
    head = f"sites: {len(fused)} fused"
    if len(rows) > len(fused):
        head += f" and {len(rows) - len(fused)} ordinary steps"
    head += f" against their bodies, {len(bad)} beyond the threshold"
    ranked = sorted(rows, key=lambda r: -r["share"])
    return [head, *(f"  {_site_line(r)}" for r in (bad or ranked[:SHOWN]))]


def _site_line(row: Mapping[str, Any]) -> str:
    mark = "WRONG" if row["reason"] else "fine"
    what = " + ".join(row["operators"])
    end = row["reason"] or f"error {row['error']:.1e} of {row['limit']:.1e} allowed"
    note = f" ({row['note']})" if row["note"] else ""
    return f"{mark:6}{row['kernel']:26}{row['site']} ({what}): {end}{note}"


def _output_lines(row: Mapping[str, Any]) -> list[str]:
    line = f"output {row['output']}, case {row['case']}: "
    if "max_abs" in row:
        line += (
            f"max-abs {row['max_abs']:.2e} ({row['max_over_range']:.2e} of range), "
            f"mean-relative {row['mean_relative']:.2e}, cosine {row['cosine']:.9f}"
        )
    else:
        line += "compared as it is"
    if "exact" in row:
        mine, its = row["exact"], row["reference_exact"]
        line += (
            f"; from double precision {mine['max_over_range']:.1e}/{mine['mean_relative']:.1e} "
            f"(reference {its['max_over_range']:.1e}/{its['mean_relative']:.1e})"
        )
    return [line + (f"  WRONG: {row['reason']}" if row["reason"] else "")]


def _speed_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    after, before = sum(r["seconds"] for r in rows), sum(r["before"] for r in rows)
    slow = [r for r in rows if r["reason"]]
    head = f"speed: {len(rows)} fused sites take {1e3 * after:.2f} ms, their parts alone {1e3 * before:.2f} ms"
    return [head, *(f"  SLOW  {r['kernel']:26}{r['site']}: {r['reason']}" for r in slow)]
