"""The report as one HTML page that needs nothing else: no network, no other file, little script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from autofusion.tools.verify.report import Report

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --dim: #60676f; --line: #d9dde2; --back: #fff; --soft: #f4f6f8;
  --good: #1a7f4b; --bad: #c0341d; --bar: #4a78c2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --dim: #9aa3ad; --line: #363c43; --back: #15181b;
  --soft: #1e2226; --good: #4cc38a; --bad: #ff7a5c; --bar: #6d9be8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 2rem 1.5rem 4rem; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; } .dim { color: var(--dim); } code { font: 13px ui-monospace, Consolas, monospace; }
.verdict { display: inline-block; margin: 1rem 0 .5rem; padding: .45rem .9rem; border-radius: .4rem; font-weight: 600;
  color: #fff; } .good { background: #1a7f4b; } .bad { background: #c0341d; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; } th, td { text-align: left; padding: .38rem .7rem;
  border-bottom: 1px solid var(--line); vertical-align: top; } tr:last-child td { border-bottom: 0; }
th { background: var(--soft); font-weight: 600; position: sticky; top: 0; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.wrong td { background: color-mix(in srgb, var(--bad) 12%, transparent); } .why { color: var(--bad); }
.track { display: inline-block; width: 7rem; height: .6rem; background: var(--soft); border-radius: .3rem;
  overflow: hidden; } .fill { display: block; height: 100%; background: var(--bar); } tr.wrong .fill
  { background: var(--bad); }
input { font: inherit; padding: .3rem .6rem; margin: 0 0 .6rem; width: 22rem; max-width: 100%; color: inherit;
  background: var(--back); border: 1px solid var(--line); border-radius: .35rem; }
td.nodes { max-width: 34rem; overflow-wrap: anywhere; } pre { overflow-x: auto; background: var(--soft);
  padding: .8rem; border-radius: .4rem; font-size: 12.5px; }
"""

_SCRIPT = """
const box = document.getElementById("filter"), rows = document.querySelectorAll("#sites tbody tr");
if (box) box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
  }
});
"""


def page(report: Report) -> str:
    """The page."""
    data = report.data
    verdict, kind = ("Verified", "good") if report.ok else (f"Not verified: {len(report.problems)} problems", "bad")
    title = f"Verification of {data.get('model', 'a model')}"
    about = (
        f"level {data.get('level', '?')}, {data.get('threads', '?')} threads, against {data.get('against', '?')}, "
        f"{data.get('seconds', 0.0):.1f} s"
    )
    parts = [
        f"<h1>{escape(title)}</h1><p class=dim>{escape(about)}</p><div class='verdict {kind}'>{escape(verdict)}</div>",
        _problems(report),
        _cases(data.get("cases", ())),
        _sites(data.get("sites", ())),
        _outputs(data.get("outputs", ())),
        _repeats(data.get("repeats", ())),
        _speed(data.get("speed", ())),
        _metrics(data.get("metrics", ())),
        _notes(data),
    ]
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<link rel=icon href='data:,'><title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        + "\n".join(part for part in parts if part)
        + f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _table(heads: Sequence[str], rows: Iterable[tuple[bool, Sequence[str]]], name: str = "") -> str:
    """Cells are HTML; one that begins with ``#`` is a number (so is a column whose head does), with ``@`` a node."""
    head = "".join(f"<th class=number>{escape(h[1:])}" if h.startswith("#") else f"<th>{escape(h)}" for h in heads)
    body = "".join(f"<tr{' class=wrong' if wrong else ''}>{''.join(map(_cell, cells))}" for wrong, cells in rows)
    ident = f" id={name}" if name else ""
    return f"<div class=scroll><table{ident}><thead><tr>{head}</thead><tbody>{body}</tbody></table></div>"


def _cell(cell: str) -> str:
    kind = {"#": " class=number", "@": " class=nodes"}.get(cell[:1], "")
    return f"<td{kind}>{cell[1:] if kind else cell}"


def _problems(report: Report) -> str:
    if report.ok:
        return "<p>Nothing is beyond its threshold.</p>"
    rows = [(True, (escape(p.step), f"<code>{escape(p.where)}</code>", escape(p.what))) for p in report.problems]
    return "<h2>Problems</h2>" + _table(("Step", "Where", "What"), rows)


def _cases(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    cells = [
        (
            False,
            (
                escape(r["case"]),
                escape("  ".join(f"{n}: {' x '.join(map(str, s)) or 'scalar'}" for n, s in r["shapes"].items())),
                escape(r["skipped"] or "looked at"),
            ),
        )
        for r in rows
    ]
    return "<h2>Inputs</h2>" + _table(("Case", "Shapes", ""), cells)


def _sites(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    ranked = sorted(rows, key=lambda r: (not r["reason"], -r["share"]))
    wrong = sum(bool(r["reason"]) for r in rows)
    cells = [
        (
            bool(r["reason"]),
            (
                f"@<code>{escape(r['site'])}</code><br><span class=dim>{escape(' + '.join(r['operators']))}</span>",
                f"<code>{escape(r['kernel'])}</code><br><span class=dim>{escape(r['rule'] or 'not fused')}</span>",
                f"#{_number(r['error'])}",
                f"#{_number(r['limit'])}",
                _bar(r["share"]),
                f"<span class=why>{escape(r['reason'])}</span>" if r["reason"] else escape(r["note"]),
            ),
        )
        for r in ranked
    ]
    return (
        f"<h2>1. Sites: {len(rows)} against their parts, {wrong} beyond the threshold</h2>"
        "<p class=dim>Each kernel's result on the operands that it really had, against its body by the reference "
        "kernels in double precision; relative to the size of the worst channel.</p>"
        "<input id=filter type=search placeholder='Filter by node, rule, kernel or operator' aria-label=Filter>"
        + _table(("Site", "Kernel and rule", "#Error", "#Allowed", "Share", ""), cells, "sites")
    )


def _bar(share: float) -> str:
    width = 100.0 if share != share or share > 1 else 100 * share
    return f"<span class=track><span class=fill style='width:{width:.1f}%'></span></span>"


def _outputs(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""

    def far(values: Mapping[str, float] | None) -> str:
        return "#" + (f"{_number(values['max_over_range'])} / {_number(values['mean_relative'])}" if values else "")

    cells = [
        (
            bool(r["reason"]),
            (
                f"<code>{escape(r['output'])}</code><br><span class=dim>{escape(r.get('type', ''))}</span>",
                escape(r["case"]),
                f"#{_number(r.get('max_abs'))}",
                f"#{_number(r.get('max_over_range'))}",
                f"#{_number(r.get('mean_relative'))}",
                f"#{r['cosine']:.9f}" if "cosine" in r else "#",
                far(r.get("exact")),
                far(r.get("reference_exact")),
                f"<span class=why>{escape(r['reason'])}</span>",
            ),
        )
        for r in rows
    ]
    heads = (
        "Output", "Case", "#Max-abs", "#Of range", "#Mean relative", "#Cosine",
        "#From double precision", "#The reference's", "",
    )  # fmt: skip
    return "<h2>2. Outputs</h2>" + _table(heads, cells)


def _repeats(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"<p>Case {escape(r['case'])}: {r['runs']} runs on the same inputs, "
        + (
            f"<span class=why>{r['different']} gave other outputs</span>"
            if r["different"]
            else "the same bits each time"
        )
        for r in rows
    ]
    return "<h2>Repeated runs</h2>" + "".join(lines) if lines else ""


def _speed(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    ranked = sorted(rows, key=lambda r: (not r["reason"], -r["seconds"]))
    cells = [
        (
            bool(r["reason"]),
            (
                f"@<code>{escape(r['site'])}</code>",
                f"<code>{escape(r['kernel'])}</code>",
                f"#{1e3 * r['seconds']:.3f}",
                f"#{1e3 * r['before']:.3f}",
                f"#{r['before'] / r['seconds']:.2f}" if r["seconds"] else "#",
                f"<span class=why>{escape(r['reason'])}</span>",
            ),
        )
        for r in ranked
    ]
    return "<h2>Speed of sites</h2>" + _table(("Site", "Kernel", "#Fused, ms", "#Parts, ms", "#Ratio", ""), cells)


def _metrics(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    cells = [
        (False, (escape(r["metric"]), f"#{r['samples']}", f"#{r['fused']:.6f}", f"#{r['reference']:.6f}")) for r in rows
    ]
    return "<h2>3. Metrics</h2>" + _table(("Metric", "#Samples", "#Fused", "#Reference"), cells)


def _notes(data: Mapping[str, Any]) -> str:
    notes = "".join(f"<p>{escape(note)}" for note in data.get("notes", ()))
    log = f"<h2>What the process printed</h2><pre>{escape(data['log'])}</pre>" if data.get("log") else ""
    return (f"<h2>Notes</h2>{notes}" if notes else "") + log


def _number(value: float | None) -> str:
    return "" if value is None else "infinite" if value == float("inf") else f"{value:.2e}"
