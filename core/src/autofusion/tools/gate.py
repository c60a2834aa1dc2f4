"""Whether an upgrade did harm: a baseline against the same models as they are compiled now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import autofusion
from autofusion.errors import AutofusionError, OptionError
from autofusion.tools import ledger_diff
from autofusion.tools.ledger_diff import LedgerDiff
from autofusion.tools.provenance import digest
from autofusion.tools.record import FORMAT, measured, record

Data = Mapping[str, Any]
FLOORS = {"max_over_range": 1e-6, "mean_relative": 1e-5}
"""Figures of error that are compared; below these they are rounding, whatever their ratio."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """``lost`` sites are allowed in each model, errors may grow by a factor of ``errors``, and the time relative to
    level off by a share of ``slower``, if that is more than the spread of both measurements explains. ``slower_probe``
    is the same for the time relative to the probe, which differs more: between machines, and with their load.
    """

    lost: int = 0
    errors: float = 2.0
    slower: float = 0.10
    slower_probe: float = 1.0


@dataclass(slots=True)
class Verdict:
    """One model: what differs, and which of it is a regression beyond the thresholds."""

    model: str
    ledger: LedgerDiff
    kernels: dict[str, tuple[str, str]]
    """Source node -> kernel before and after, where they differ beyond the pack's version."""
    ratio: tuple[Data | None, Data | None]
    probe: tuple[Data | None, Data | None] = (None, None)
    notes: list[str] = field(default_factory=list)
    regressions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """All models, and what was upgraded in between."""

    upgraded: list[str]
    verdicts: list[Verdict]

    @property
    def regressions(self) -> list[str]:
        """Every regression, with its model."""
        return [f"{v.model}: {text}" for v in self.verdicts for text in v.regressions]


def read(path: Path) -> Data:
    """A baseline that ``record`` wrote; OptionError if the file is none."""
    try:
        data: Data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("format") != FORMAT or not isinstance(data["models"], list):
            raise ValueError(f"its format is {data.get('format')!r}, expected {FORMAT}")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise OptionError(
            f"'{path}' is not a baseline ({said}); 'autofusion record MODEL -o {path}' writes one"
        ) from error
    return data


def check(path: Path, seconds: float, thresholds: Thresholds) -> Report:
    """Compile and measure the models of the baseline at ``path`` again, and compare.

    A model that does not compile or run any more is a regression of that model; the others are still checked.
    """
    old = read(path)
    for entry in old["models"]:
        if not (path.parent / entry["model"]).exists():
            raise OptionError(f"the baseline '{path}' is about '{path.parent / entry['model']}', which is not there")
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in old["settings"].items()}
    verdicts = [_checked(entry, path.parent, seconds, settings, thresholds) for entry in old["models"]]
    return Report(_upgraded(old, record((), path.parent, 0, settings)), verdicts)


def _checked(old: Data, folder: Path, seconds: float, settings: Data, thresholds: Thresholds) -> Verdict:
    model, shapes = folder / old["model"], {name: tuple(shape) for name, shape in old["shapes"].items()}
    try:
        found = _verdict(old, measured(model, shapes, folder, seconds, settings), thresholds)
    except AutofusionError as error:
        found = Verdict(old["model"], ledger_diff.diff(old, old, ("the baseline", "now")), {}, (old["ratio"], None))
        found.regressions.append(f"it does not compile and run any more: {error}")
    if digest(model) != old["digest"]:
        found.notes.append("the model file is another one than was recorded")
    return found


def _upgraded(old: Data, new: Data) -> list[str]:
    before = {"autofusion": old["core"], **old["packs"]}
    after = {"autofusion": autofusion.__version__, **new["packs"]}
    told = []
    for dist in sorted(before.keys() | after.keys()):
        was, now = before.get(dist), after.get(dist)
        if was != now:
            told.append(f"{dist} {was or 'not installed'} -> {now or 'not installed'}")
    return told


def _verdict(old: Data, new: Data, thresholds: Thresholds) -> Verdict:
    names = ("the baseline", "now")
    diff = ledger_diff.diff(old, new, names)
    probe = (old.get("probe"), new["probe"])
    found = Verdict(old["model"], diff, _kernels(old, new), (old["ratio"], new["ratio"]), probe)
    lost = [*diff.lost, *diff.rewrites_lost]
    if len(lost) > thresholds.lost:
        places = ", ".join(f"'{c.site}' [{(c.a or {}).get('rule')}]" for c in lost[:5])
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        found.regressions.append(f"{len(lost)} sites lost: {places}{more}")
    found.notes += _not_compared(old, new)
    found.regressions += _errors(old["errors"], new["errors"], thresholds.errors)
    found.regressions += _slower(old["ratio"], new["ratio"], thresholds.slower)
    found.regressions += _slower(*probe, thresholds.slower_probe, "the probe's time")
    return found


def _kernels(old: Data, new: Data) -> dict[str, tuple[str, str]]:
    a, b = old["kernels"], new["kernels"]
    return {n: (a[n], b[n]) for n in a if n in b and a[n].split("@")[0] != b[n].split("@")[0]}


def _errors(old: Data, new: Data, factor: float) -> Iterator[str]:
    for against in old.keys() & new.keys():
        what = "level off" if against == "off" else "the model's framework"
        for figure, floor in FLOORS.items():
            was, now = float(old[against][figure]), float(new[against][figure])
            if now > max(factor * was, floor):
                yield f"error against {what} grew: {figure} {was:.2e} -> {now:.2e}"
        if old[against]["same_nonfinite"] and not new[against]["same_nonfinite"]:
            yield f"NaN or infinity at other places than {what} has them"


def _not_compared(old: Data, new: Data) -> Iterator[str]:
    """What only one side has: nothing may pass the gate because nobody looked."""
    for against in sorted(old["errors"].keys() ^ new["errors"].keys()):
        where = "now" if against in old["errors"] else "in the baseline"
        what = "level off" if against == "off" else "the model's framework"
        yield f"errors against {what} are not compared: they were not measured {where}"
    if (old["ratio"] is None) is not (new["ratio"] is None):
        yield f"times are not compared: they were not measured {'in the baseline' if old['ratio'] is None else 'now'}"
    elif old.get("probe") is None and new["probe"] is not None:
        yield "times over the probe's are not compared: the baseline has none; record it again"


def _slower(old: Data | None, new: Data | None, share: float, base: str = "level off") -> Iterator[str]:
    if old is None or new is None:
        return
    # Two medians always differ; what counts is a difference that the spread within each does not explain.
    if new["median"] > (1 + share) * old["median"] and new["low"] > old["high"]:
        yield f"slower: {_spread(old)} of {base} before, {_spread(new)} now"


def _spread(ratio: Data) -> str:
    return f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


# ---- telling ----------------------------------------------------------------------------------------------------


def lines(report: Report) -> Iterator[str]:
    """The report as text."""
    yield "upgraded: " + (", ".join(report.upgraded) or "nothing")
    for verdict in report.verdicts:
        yield f"{verdict.model}:"
        yield from (f"  {note}" for note in verdict.notes)
        yield from (f"  {line}".rstrip() for line in ledger_diff.lines(verdict.ledger))
        yield from _kernel_lines(verdict.kernels)
        old, new = verdict.ratio
        if old is not None and new is not None:
            yield f"  time over level off: {_spread(old)} before, {_spread(new)} now"
        old, new = verdict.probe
        if old is not None and new is not None:
            yield f"  time over the probe's: {_spread(old)} before, {_spread(new)} now"
        yield from (f"  REGRESSION {text}" for text in verdict.regressions)
    count = len(report.regressions)
    yield f"{count} regression{'s' if count != 1 else ''}"


def _kernel_lines(kernels: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    by_change: dict[tuple[str, str], list[str]] = {}
    for name, change in kernels.items():
        by_change.setdefault(change, []).append(name)
    for (was, now), names in by_change.items():
        yield f"  other kernel: {was} -> {now} at {_some(names)}"


def _some(names: Iterable[str], most: int = 3) -> str:
    all_ = list(names)
    return ", ".join(all_[:most]) + (f" and {len(all_) - most} more" if len(all_) > most else "")


def as_data(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "upgraded": report.upgraded,
        "regressions": report.regressions,
        "models": [
            {
                "model": v.model,
                "notes": v.notes,
                "regressions": v.regressions,
                "ledger": ledger_diff.as_data(v.ledger),
                "kernels": {name: list(change) for name, change in v.kernels.items()},
                "ratio": list(v.ratio),
                "probe": list(v.probe),
            }
            for v in report.verdicts
        ],
    }
