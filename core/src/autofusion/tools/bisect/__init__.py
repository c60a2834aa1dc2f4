"""Bisect a failure: the fewest rules and places, or the kernel, that cause a deviation, a crash or a slowdown.

Every run is a child process with a time limit. Places are taken in the order of their rules, so that halving them
decides between rules first and between places of a rule then; whether the rule or the kernel there is to blame shows
where the failure is seen (a kernel whose result differs from its own node's meaning, or that was running at the end),
or in one more run of the same places on the reference kernels.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from autofusion.tools.bisect.job import LOOKS, OUTPUTS, REPEATS, SITES, SPEED, Request
from autofusion.tools.bisect.minimise import every_culprit, minimal_failing
from autofusion.tools.bisect.reproducer import SIZES, Reproducer, try_script, write_script
from autofusion.tools.bisect.variants import FEW, Outcome, Runs, Unit, Variant
from autofusion.tools.child import CRASH, ERROR, HANG, OK, at_least, run_job
from autofusion.tools.inputs import Wanted
from autofusion.tools.metrics import FUNCTION, NAMES

__all__ = ["Culprit", "Report", "bisect", "lines"]

VERIFY = "verify"
NOTHING_FAILS = "nothing fails with everything on"
TIMEOUT = 120.0
_RUNNING = re.compile(r"running (\S+) at '(.*)'")
_CASE = re.compile(r"\(case ([^()]*)\)")
_ENDED = (CRASH, HANG, ERROR)


@dataclass(frozen=True, slots=True)
class Culprit:
    """What causes a failure of ``kind``: rules at places, each of them needed; ``kernel`` if that is to blame there.

    ``needs`` are other rules at places without which the culprit would not come about: they make what it applies to.
    ``everywhere`` says that other places of the same rule (or kernel) fail as well.
    """

    kind: str
    units: tuple[Unit, ...]
    kernel: str
    what: str
    needs: tuple[Unit, ...] = ()
    everywhere: bool = False
    reproducer: Reproducer | None = None
    version: str = ""
    """Of the kernel's pack."""

    @property
    def switch(self) -> str:
        """The option that leaves the culprit out."""
        if self.kernel:
            return f"--disable-kernel {self.kernel}" + ("" if self.everywhere else f"@{self.units[0].site}")
        unit = self.units[-1]
        if self.everywhere or not unit.site:
            return f"--disable {unit.rule}"
        return f"--disable-site {unit.switch}"

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind,
            "blame": "kernel" if self.kernel else "rule",
            "rules": [u.rule for u in self.units if u.rule],
            "sites": [u.site for u in self.units],
            "nodes": [list(u.nodes) for u in self.units],
            "needs": [u.switch for u in self.needs],
            "kernel": self.kernel,
            "version": self.version,
            "everywhere": self.everywhere,
            "what": self.what,
            "switch": self.switch,
            "reproducer": None if self.reproducer is None else dataclasses.asdict(self.reproducer),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The culprits (none if nothing fails), the number of runs, and one line for each."""

    model: str
    check: str
    culprits: tuple[Culprit, ...]
    runs: int
    log: tuple[str, ...]
    places: int
    note: str = ""

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "model": self.model,
            "check": self.check,
            "culprits": [c.data() for c in self.culprits],
            "runs": self.runs,
            "places": self.places,
            "log": list(self.log),
            "note": self.note,
        }


def bisect(
    model: str | PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    wanted: Wanted | None = None,
    data: str | PathLike[str] | None = None,
    check: str = VERIFY,
    against: str = "level-off",
    tolerances: Mapping[str, float] | None = None,
    samples: int = 2,
    repeats: int = 4,
    seed: int = 0,
    slower: float = 2.0,
    decode: str = "",
    metric_tolerance: float = 0.0,
    timeout: float = TIMEOUT,
    out: str | PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda line: None,
    **settings: Any,
) -> Report:
    """Find what makes the model at ``model``, compiled with ``settings``, fail ``check``.

    ``check`` is ``verify`` (outputs, sites, repeated runs; crashes and hangs count in any case), ``speed``, a metric
    (a name, or ``module:function``; needs ``data``), or a command line, which fails by its exit code and whose
    compilations take their switches from the environment (AUTOFUSION_CONFIG). ``out`` is a folder for reproducers.
    The other arguments are those of ``verify``; ``timeout`` is the longest time without progress in seconds.
    """
    at_least(1, samples=samples, repeats=repeats)
    at_least(0, timeout=timeout, slower=slower)
    command = ""
    if check == VERIFY:
        looks = [OUTPUTS, REPEATS, SITES]
    elif check == SPEED or check in NAMES or FUNCTION.fullmatch(check):
        looks = [check]
    else:
        looks, command = [], check
    with tempfile.TemporaryDirectory(prefix="autofusion-bisect-") as folder:
        request = Request(
            model=str(Path(model)),
            settings={k: list(v) if isinstance(v, tuple | set | frozenset) else v for k, v in settings.items()},
            shapes={name: list(shape) for name, shape in (shapes or {}).items()},
            wanted=dataclasses.asdict(wanted or Wanted()),
            folder=folder,
            looks=looks,
            data="" if data is None else str(Path(data)),
            against=against,
            tolerances=dict(tolerances or {}),
            samples=samples,
            repeats=repeats,
            seed=seed,
            slower=slower,
            decode=decode,
            metric_tolerance=metric_tolerance,
        )
        runs = Runs(request, timeout, environ or {}, say, command)
        return _Bisection(runs, looks, check, None if out is None else Path(out)).run()


Place = tuple[Unit, ...]
"""Rules that touch the same source nodes: what one made, the next applies to, and one fused node comes of it."""


def _places(units: Sequence[Unit]) -> list[Place]:
    """The places of ``units``, those of one rule (the last that applies there) next to each other."""
    of_node: dict[str, int] = {}
    groups: dict[int, list[Unit]] = {}
    for number, unit in enumerate(units):
        merged = [unit]
        for group in sorted({of_node[n] for n in (unit.site, *unit.nodes) if n in of_node}):
            merged = [*groups.pop(group), *merged]
        groups[number] = merged
        of_node.update({n: number for u in merged for n in (u.site, *u.nodes)})
    position = {unit: number for number, unit in enumerate(units)}
    places = [tuple(sorted(group, key=position.__getitem__)) for group in groups.values()]
    rules = {rule: number for number, rule in enumerate(dict.fromkeys(u.rule for u in units))}
    return sorted(places, key=lambda place: (rules[place[-1].rule], position[place[-1]]))


class _Bisection:
    def __init__(self, runs: Runs, looks: list[str], check: str, out: Path | None) -> None:
        self.runs, self.looks, self.check, self.out = runs, looks, check, out
        self.level = ""
        self.total = 0
        self.kernels: dict[str, str] = {}
        """Source node -> the kernel that runs it, with everything on."""

    def run(self) -> Report:
        first = self.runs.outcome(Variant(), self.looks, what="everything on")
        if not first.kind:
            return self._report((), NOTHING_FAILS)
        kind = first.kind
        self.kernels = {node: s["kernel"] for s in first.steps for node in s["nodes"]}
        family = {OUTPUTS, REPEATS} if kind in (OUTPUTS, REPEATS) else {kind}
        looks = [look for look in self.looks if look in family] if kind in LOOKS else self.looks
        doubtful = self.runs.request.against != "level-off" or kind not in (OUTPUTS, SITES, SPEED, *_ENDED)
        # Level off runs the same kernels of ordinary operators, so those are wrong there as well.
        if doubtful or any(p["step"] == REPEATS or not p["fused"] for p in first.problems):
            base = self.runs.outcome(Variant(level="off"), looks, what="level off")
            if base.kind in family:
                return self._kernels_alone(base, looks, family)
        if not first.units and kind in _ENDED:
            return self._while_compiling(first, kind)
        return self._places(first, looks, family)

    def _report(self, culprits: Sequence[Culprit], note: str = "") -> Report:
        runs = self.runs
        model, kept = runs.request.model, tuple(runs.log)
        return Report(model, self.check, tuple(culprits), runs.count, kept, self.total, note)

    # ---- rules at places ---------------------------------------------------------------------------------------

    def _places(self, first: Outcome, looks: list[str], family: set[str]) -> Report:
        places = _places(first.units)
        self.total = len(places)
        if not places:
            return self._report(
                (), f"it fails ({first.what}), but no rule was applied anywhere; try --against reference"
            )

        def alone(units: Sequence[Unit], what: str, few: bool) -> Outcome:
            evidence = {n for u in units for n in (u.site, *u.nodes)} if few and not self.runs.command else None
            variant = Variant(only_sites=tuple(u.switch for u in units))
            return self.runs.outcome(variant, looks, evidence=evidence, what=what)

        def at(some: Sequence[Place]) -> Outcome:
            units = [u for place in some for u in place]
            return alone(units, f"{len(some)} of {len(places)} places", len(some) <= FEW)

        def applied(some: Sequence[Unit]) -> Outcome:
            return alone(some, f"{len(some)} rules at {len(core)} places", True)

        blamed: dict[Place, str] = {}

        def related(other: Place, one: Place) -> bool:
            if one not in blamed:
                blamed[one] = self._blame(at([one]), one, looks, family)
            kernel = blamed[one]
            if kernel:
                return any(self.kernels.get(u.site) == kernel for u in other)
            return bool({u.rule for u in other} & {u.rule for u in one})

        culprits: list[Culprit] = []
        suspects = self._suspects(first, places)
        for core, everywhere in every_culprit(places, lambda some: at(some).kind in family, related, suspects):
            units = [u for place in core for u in place]
            outcome = at(core)
            kernel = self._blame(outcome, units, looks, family)
            needs: tuple[Unit, ...] = ()
            if kernel:
                guilty = self._fused_for(kernel, outcome, units)
            else:
                if len(units) > 1:
                    units = minimal_failing(units, lambda some: applied(some).kind in family)
                    outcome = applied(units)
                guilty, needs = self._guilty(units, applied([units[-1]]) if len(units) > 1 else outcome)
            kind, what = (outcome.kind, outcome.what) if outcome.kind else (first.kind, first.what)
            version = _version(kernel, outcome)
            culprit = Culprit(kind, guilty, kernel, what, needs, everywhere, version=version)
            switches = tuple(u.switch for u in units)
            culprits.append(self._reproduced(culprit, units, Variant(only_sites=switches), len(culprits)))
        return self._report(culprits)

    @staticmethod
    def _suspects(first: Outcome, places: Sequence[Place]) -> list[Place]:
        """Places where a kernel was seen to be wrong, or that were being run at the end."""
        names = [node for problem in first.problems if problem["kernel"] for node in problem["nodes"]]
        running = _RUNNING.search(first.doing) if first.kind in _ENDED else None
        names += [running[2]] if running is not None else []
        of_node = {node: place for place in places for unit in place for node in (unit.site, *unit.nodes)}
        return list(dict.fromkeys(of_node[name] for name in names if name in of_node))

    def _blame(self, outcome: Outcome, core: Sequence[Unit], looks: list[str], family: set[str]) -> str:
        """The kernel that is to blame for a failure with only ``core`` applied, or an empty string: the rule is.

        Where no kernel was seen to be wrong, one more run tells: the same places on the reference kernels. What still
        fails then is the rule's; runs that differ cannot be a rule's, so the kernels elsewhere are tried for those.
        """
        nodes = {node for unit in core for node in (unit.site, *unit.nodes)}
        seen = self._seen_to_fail(outcome, nodes)
        if seen or not outcome.kind or SPEED in family:
            return seen
        steps = [s for s in outcome.steps if not s["is_reference"]]
        here, everywhere = (
            list(dict.fromkeys((str(s["kernel"]), str(s["site"])) for s in some))
            for some in ([s for s in steps if nodes & {s["site"], *s["nodes"]}], steps)
        )
        sites = tuple(u.switch for u in core)
        what = f"{len(core)} rules at the same places"

        def fails(some: Sequence[tuple[str, str]]) -> bool:
            """Whether it fails with the kernels ``some`` of ``tried``, and the reference kernels for the others."""
            off = {f"{kernel.partition(':')[0]}@{site}" for kernel, site in tried if (kernel, site) not in some}
            variant = Variant(only_sites=sites, disable_kernels=tuple(sorted(off)))
            told = f"{what}, on the reference kernels" if not some else f"{what}, {len(some)} kernels of {len(tried)}"
            return self.runs.outcome(variant, looks, what=told).kind in family

        for tried in (here, everywhere) if outcome.kind == REPEATS else (here,):
            if tried and not fails(()):
                return minimal_failing(tried, fails)[-1][0]
        return ""

    @staticmethod
    def _seen_to_fail(outcome: Outcome, nodes: set[str]) -> str:
        """The kernel at ``nodes`` that was seen to be wrong, or that was running at the end; else an empty string."""
        for problem in outcome.problems:
            if problem["kernel"] and nodes & set(problem["nodes"]):
                return str(problem["kernel"])
        found = _RUNNING.search(outcome.doing) if outcome.kind in _ENDED else None
        if found is None:
            return ""
        for step in outcome.steps:
            if step["kernel"] == found[1] and step["site"] == found[2] and nodes & set(step["nodes"]):
                return str(step["kernel"])
        return ""

    @staticmethod
    def _fused_for(kernel: str, outcome: Outcome, units: Sequence[Unit]) -> tuple[Unit, ...]:
        """The rules at places that made what ``kernel`` runs; all of ``units`` if it runs an ordinary operator."""
        made = {(s["rule"], s["site"]) for s in outcome.steps if s["kernel"] == kernel}
        return tuple(u for u in units if (u.rule, u.site) in made) or tuple(units)

    @staticmethod
    def _guilty(units: Sequence[Unit], last: Outcome) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
        """Those of ``units`` that fail, and those that only make what the others apply to.

        ``last`` is the run of the last of them alone: a rule that finds nothing by itself needs the others.
        """
        if units[-1].switch not in {u.switch for u in last.units}:
            return (units[-1],), tuple(units[:-1])
        return tuple(units), ()

    # ---- kernels without any rule ------------------------------------------------------------------------------

    def _kernels_alone(self, base: Outcome, looks: list[str], family: set[str]) -> Report:
        """Level off fails too: some kernel of an ordinary operator is to blame."""
        units = [
            Unit(site=s["site"], kernel=s["kernel"], nodes=tuple(s["nodes"]))
            for s in base.steps
            if not s["is_reference"]
        ]
        self.total = len(units)
        if not units:
            return self._report((), f"it fails at level off, on the reference kernels alone: {base.what}")

        def without(some: Sequence[Unit]) -> Variant:
            """Whatever is not among ``some`` runs on the reference kernels."""
            kept = set(some)
            off = {f"{u.kernel.partition(':')[0]}@{u.site}" for u in units if u not in kept}
            return Variant(level="off", disable_kernels=tuple(sorted(off)))

        def fails(some: Sequence[Unit]) -> bool:
            what = f"{len(some)} of {len(units)} kernels"
            return self.runs.outcome(without(some), looks, what=what).kind in family

        if fails(()):
            return self._report((), f"it fails at level off, on the reference kernels alone: {base.what}")
        culprits: list[Culprit] = []
        for core, everywhere in every_culprit(units, fails, lambda a, b: a.kernel == b.kernel):
            kernel = core[-1].kernel
            version = _version(kernel, base)
            culprit = Culprit(base.kind, tuple(core), kernel, base.what, everywhere=everywhere, version=version)
            culprits.append(self._reproduced(culprit, core, Variant(level="off"), len(culprits)))
        return self._report(culprits)

    # ---- failures before anything runs -------------------------------------------------------------------------

    def _while_compiling(self, first: Outcome, kind: str) -> Report:
        """The compilation itself dies: which rule, then which of the model's nodes it dies at."""
        rules = [Unit(label.rpartition("@")[0], label=label) for label in first.rules]
        self.total = len(rules)

        def fails(some: Sequence[Unit]) -> bool:
            variant = Variant(only=tuple(u.rule for u in some))
            return self.runs.outcome(variant, self.looks, what=f"{len(some)} of {len(rules)} rules").kind == kind

        core = minimal_failing(rules, fails)
        names = tuple(u.rule for u in core)
        culprit = Culprit(kind, tuple(core), "", first.what)

        def dies_at(nodes: Sequence[str]) -> bool:
            sites = tuple(f"{rule}:{node}" for rule in names for node in nodes)
            variant = Variant(only=names, only_sites=sites)
            return self.runs.outcome(variant, self.looks, what=f"{len(nodes)} of {len(first.nodes)} nodes").kind == kind

        if first.nodes and not dies_at(()):
            at = minimal_failing(first.nodes, dies_at)
            units = tuple(dataclasses.replace(u, site=at[-1], nodes=tuple(at)) for u in core)
            culprit = dataclasses.replace(culprit, units=units)
        return self._report((self._reproduced(culprit, culprit.units, Variant(only=names), 0),))

    # ---- reproducers -------------------------------------------------------------------------------------------

    def _reproduced(self, culprit: Culprit, units: Sequence[Unit], variant: Variant, number: int) -> Culprit:
        """The culprit with a reproducer, if one fails on its own: whatever the check was, what a reproducer shows is a
        crash, a hang, a deviation or a slowdown.
        """
        if self.out is None:
            return culprit
        runs, out = self.runs, self.out
        folder = out / f"culprit-{number + 1}"
        case = _CASE.search(culprit.what)
        name = case[1] if case else culprit.what.rpartition("while ")[2].partition(":")[0]
        own = dataclasses.replace(
            runs.request,
            level=variant.level,
            only_sites=None if variant.only_sites is None else list(variant.only_sites),
            only=list(variant.only),
        )
        nodes = sorted({n for u in units for n in u.nodes})
        limit = min(runs.timeout, 60.0)
        for size in SIZES:
            if size == "node" and not culprit.kernel:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            request = {
                "size": size, "kernel": culprit.kernel, "nodes": nodes, "out": str(folder), "case": name,
                "request": dataclasses.asdict(own),
            }  # fmt: skip
            made = run_job("autofusion.tools.bisect.reproducer:make_job", request, timeout=limit, environ=runs.environ)
            if made.status != OK or made.result is not True:
                runs.log.append(
                    f"no reproducer of size '{size}': {made.detail or 'its inputs are not in the source model'}"
                )
                continue
            # A lone node is fused already; anything larger is fused again, at the culprit's places only.
            level = "off" if size == "node" else variant.level or str(runs.request.settings.get("level") or "full")
            write_script(
                folder,
                f"{culprit.kind}: {culprit.what}",
                runs.request.model,
                level=level,
                threads=runs.request.settings.get("threads"),
                only_sites=None if size == "node" else variant.only_sites,
                disable_kernels=runs.request.settings.get("disable_kernels", ()),
                limit=limit,
            )
            ending = try_script(folder, culprit.kind, runs.environ, limit + 60.0)
            if ending:
                runs.say(f"reproducer ({size}): {folder}: {ending}")
                return dataclasses.replace(culprit, reproducer=Reproducer(str(folder), size, ending))
            runs.log.append(f"the reproducer of size '{size}' does not fail on its own")
        shutil.rmtree(folder, ignore_errors=True)
        return culprit


def _version(kernel: str, outcome: Outcome) -> str:
    return next((str(s["version"]) for s in outcome.steps if s["kernel"] == kernel), "")


def lines(report: Report) -> list[str]:
    """The report as text."""
    result = list(report.log)
    if not report.culprits:
        return [*result, "", report.note or "no culprit was found"]
    result.append("")
    for culprit in report.culprits:
        places = " and ".join(f"'{u.site}'" for u in culprit.units if u.site)
        rules = " with ".join(dict.fromkeys(u.label or u.rule for u in culprit.units if u.rule))
        if culprit.kernel:
            version = f" (version {culprit.version})" if culprit.version else ""
            result.append(f"kernel {culprit.kernel}{version} at {places}" + (f", fused by {rules}" if rules else ""))
        else:
            result.append(f"rule {rules}" + (f" at {places}" if places else ""))
        result.append(f"  {culprit.kind}: {culprit.what}")
        if culprit.needs:
            result.append(f"  it needs {' and '.join(u.switch for u in culprit.needs)} to come about")
        if culprit.everywhere:
            result.append("  other places of it fail as well")
        result.append(f"  leave it out with {culprit.switch}")
        if culprit.reproducer is not None:
            result.append(f"  reproducer ({culprit.reproducer.size}): {culprit.reproducer.folder}")
    result.append(f"{report.runs} runs for {report.places} places")
    return result
