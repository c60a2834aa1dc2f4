"""One run of a bisection, as a job for a child process: compile a variant, look whether it fails, and say where.

The reference is run once and kept in the bisection's folder. What was applied where is kept before anything runs, so
that it is known even if the run crashes.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import autofusion
from autofusion.fusion.ledger import Verdict
from autofusion.ir.graph import Graph
from autofusion.offers.guard import guarded
from autofusion.plugins.registry import default_registry
from autofusion.runtime.session import Session
from autofusion.tools.child import Progress
from autofusion.tools.inputs import Wanted
from autofusion.tools.metrics import make_metric
from autofusion.tools.samples import DataSet, Sample, disturbed, made_up, open_data, overflows
from autofusion.tools.verify.exact import exact_session, widened
from autofusion.tools.verify.job import compiled, reference_run
from autofusion.tools.verify.outputs import NOWHERE, compare_outputs, same_bits
from autofusion.tools.verify.sites import SiteChecker, site_name
from autofusion.tools.verify.speed import lastingly_slow
from autofusion.tools.verify.tolerance import Tolerances

REFERENCE = "reference: "
"""Progress of the reference run begins so: what dies there is not the variant's fault."""
OUTPUTS, REPEATS, SITES, SPEED = "outputs", "repeats", "sites", "speed"
LOOKS = (OUTPUTS, REPEATS, SITES, SPEED)
WHOLE = "the whole model"
WHOLE_SLOWER = 1.25
"""Times that a model may take of what level off takes, whatever its sites do."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to compile and what to look at. ``only_sites`` None leaves all places; ``only`` empty all rules.

    ``looks`` are of LOOKS, or a metric; the steps at the nodes ``evidence`` are judged besides. ``folder`` holds the
    reference.
    """

    model: str
    settings: dict[str, Any]
    shapes: dict[str, list[int]]
    folder: str
    looks: list[str]
    data: str = ""
    against: str = "level-off"
    tolerances: dict[str, float] | None = None
    samples: int = 2
    repeats: int = 4
    seed: int = 0
    slower: float = 2.0
    decode: str = ""
    metric_tolerance: float = 0.0
    level: str = ""
    only_sites: list[str] | None = None
    only: list[str] | None = None
    disable_kernels: list[str] | None = None
    evidence: list[str] | None = None
    wanted: dict[str, Any] = field(default_factory=dict)
    """Of made-up inputs: see ``autofusion.tools.inputs.Wanted``."""


def variant_settings(request: Request) -> dict[str, Any]:
    """The keywords of ``autofusion.compile`` for the variant."""
    settings = dict(request.settings)
    if request.level:
        settings["level"] = request.level
    if request.only_sites is not None:
        settings["only_sites"] = request.only_sites
    if request.only:
        settings["only"] = request.only
    settings["disable_kernels"] = [*settings.get("disable_kernels", ()), *(request.disable_kernels or ())]
    return settings


def bisect_job(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The job: ``request`` is a Request as a dict."""
    return _Run(Request(**request), progress).run()


class _Run:
    def __init__(self, request: Request, progress: Progress) -> None:
        self.request, self.progress = request, progress
        self.tolerances = Tolerances(request.tolerances or {})
        self.found: dict[str, Any] = {"problems": [], "units": [], "steps": [], "nodes": [], "rules": []}

    def run(self) -> dict[str, Any]:
        request, progress = self.request, self.progress
        progress(f"{REFERENCE}loading the model")
        settings = request.settings
        source = autofusion.load(
            request.model, inputs=tuple(settings.get("inputs") or ()), outputs=tuple(settings.get("outputs") or ())
        )
        self.found["nodes"] = list(dict.fromkeys(o for n in source.nodes for o in n.origin or (n.name,)))
        packs = default_registry().rule_packs
        self.found["rules"] = [f"{rule.name}@{pack.version}" for pack in packs for rule in pack.rules]
        dataset = open_data(Path(request.data), source) if request.data else None
        expected, samples = self._reference(source, dataset)
        progress("compiling")
        progress.keep(self.found)
        variant = compiled(source, variant_settings(request))
        for sample in samples:
            progress(f"compiling for {sample.name}")
            variant.prepare({n: tuple(s) for n, s in sample.shapes.items()})
            self._keep(variant)
        for look in request.looks:
            if look == SPEED:
                self._speed(source, variant, samples[0])
            elif look not in LOOKS:
                self._metric(look, variant, dataset, expected)
        if request.evidence is not None or {OUTPUTS, REPEATS, SITES} & set(request.looks):
            self._runs(variant, samples, expected)
        self._keep(variant)
        return self.found

    def _keep(self, variant: Session) -> None:
        """Note what was applied where, and which kernel runs what."""
        found = self.found
        units = {(u["rule"], u["site"]): u for u in found["units"]}
        for record in variant.ledger.records:
            if record.verdict is Verdict.FUSED and record.site:
                rule = record.rule.rsplit("@", 1)[0]
                units.setdefault(
                    (rule, record.site),
                    {"rule": rule, "site": record.site, "nodes": list(record.nodes), "label": record.rule},
                )
        found["units"] = list(units.values())
        steps = {(s["kernel"], s["node"]): s for s in found["steps"]}
        for stage in variant.stages:
            for step in stage.runner.plan.steps:
                if not step.is_reorder:
                    steps[step.kernel, step.node.name] = {
                        "kernel": step.kernel,
                        "node": step.node.name,
                        "site": site_name(step.node),
                        "rule": str(step.node.attr("rule", "")).rsplit("@", 1)[0],
                        "nodes": list(step.node.origin or (step.node.name,)),
                        "is_reference": step.pack.is_reference,
                        "version": step.pack.version,
                    }
        found["steps"] = list(steps.values())
        self.progress.keep(found)

    # ---- reference ---------------------------------------------------------------------------------------------

    def _reference(self, source: Graph, dataset: DataSet | None) -> tuple[dict[str, Any], list[Sample]]:
        """The reference's outputs (and the exact ones) by sample, and the samples that the model takes."""
        request, progress = self.request, self.progress
        path = Path(request.folder) / "reference.pickle"
        if path.exists():
            kept: tuple[dict[str, Any], list[Sample]] = pickle.loads(path.read_bytes())
            return kept
        progress(f"{REFERENCE}compiling")
        registry = default_registry()
        names = {k: tuple(request.settings.get(k) or ()) for k in ("inputs", "outputs")}
        off = compiled(source, request.settings, level="off", only_sites=None)
        run = reference_run(request.against, Path(request.model), names, off, registry)
        if dataset is not None:
            samples = [dataset.sample(i) for i in range(min(request.samples, len(dataset)))]
        else:
            samples = made_up(
                source, {n: tuple(s) for n, s in request.shapes.items()}, request.seed, Wanted.of(request.wanted)
            )
        exact: Session | None = None
        with contextlib.suppress(Exception):  # an operator that exists in single precision only
            exact = exact_session(source, registry)
        expected: dict[str, Any] = {"outputs": {}, "exact": {}, "metrics": {}}
        fit = []
        for sample in samples:
            progress(f"{REFERENCE}{sample.name}")
            try:
                expected["outputs"][sample.name] = run(sample.inputs)
            except Exception:
                if not sample.optional:
                    raise
                continue
            if overflows(sample, expected["outputs"][sample.name]):
                continue
            fit.append(sample)
            if exact is not None:
                progress(f"{REFERENCE}{sample.name} in double precision")
                try:
                    inputs = {n: widened(np.asarray(v)) for n, v in sample.inputs.items()}
                    expected["exact"][sample.name] = exact.run(inputs)
                except Exception:  # an operator that exists in single precision only
                    exact = None
        for look in request.looks:
            if look not in LOOKS and dataset is not None:
                expected["metrics"][look] = self._measured(look, run, dataset, REFERENCE)
        path.write_bytes(pickle.dumps((expected, fit)))
        return expected, fit

    # ---- looking -----------------------------------------------------------------------------------------------

    def _problem(
        self, step: str, where: str, what: str, kernel: str = "", nodes: tuple[str, ...] = (), fused: bool = True
    ) -> None:
        self.found["problems"].append(
            {"step": step, "where": where, "what": what, "kernel": kernel, "nodes": list(nodes), "fused": fused}
        )

    def _quarantined(self, variant: Session) -> None:
        """A kernel that was quarantined while the variant ran is the cause of whatever came of it."""
        for pack in map(guarded, variant.context.kernel_packs):
            for kernel, reason in pack.quarantine_reasons.items():
                steps = [s for s in self.found["steps"] if s["kernel"] == f"{pack.name}:{kernel}"]
                for step in [s for s in steps if f"'{s['site']}'" in reason] or steps:
                    what, nodes = f"quarantined: {reason}", tuple(step["nodes"])
                    self._problem(REPEATS, step["site"], what, step["kernel"], nodes, bool(step["rule"]))

    def _runs(self, variant: Session, samples: list[Sample], expected: dict[str, Any]) -> None:
        looks = set(self.request.looks)
        evidence = self.request.evidence
        nodes = frozenset(evidence) if evidence is not None else None
        checker = SiteChecker(variant, self.tolerances, evidence is not None, nodes, self.progress)
        judging = SITES in looks or evidence is not None
        for sample in samples:
            name = sample.name
            # Step by step first: if a kernel crashes, it is known which.
            first = checker.run(sample.inputs, name, judge=judging)
            different = 0
            for number in range(self.request.repeats):
                if number == self.request.repeats - 1:
                    self.progress(f"{name}: a run on other inputs in between")
                    variant.run(disturbed(sample.inputs))
                if judging:
                    checker.run(sample.inputs, name)
                self.progress(f"{name}: run {number + 1}")
                got = variant.run(sample.inputs)
                different += not same_bits(got, first)
            if REPEATS in looks and different:
                self._problem(REPEATS, name, f"{different} of {self.request.repeats} runs gave other outputs")
            if OUTPUTS in looks:
                exact = expected["exact"].get(name)
                excuse = self.request.against != "framework"
                rows = compare_outputs(
                    first, expected["outputs"][name], exact, self.tolerances, excuse=excuse, clean=sample.clean
                )
                for row in rows:
                    if row["reason"] and row["reason"] != NOWHERE:  # no variant could mend that
                        self._problem(OUTPUTS, row["output"], f"{row['reason']} (case {name})")
        for result in checker.results.values():
            if result.reason:
                what = f"{result.reason} (case {result.case or 'any'})"
                self._problem(SITES, result.site, what, result.kernel, result.nodes, result.fused)
        self._quarantined(variant)

    def _speed(self, source: Graph, variant: Session, sample: Sample) -> None:
        self.progress("compiling at level off")
        off = compiled(source, self.request.settings, level="off", only_sites=None)
        slow = lastingly_slow(variant, off, sample.inputs, self.request.slower, self.progress)
        for row in slow:
            self._problem(SPEED, row["site"], row["reason"], row["kernel"], tuple(row["nodes"]))
        if not slow:
            self._whole(variant, off, sample)

    def _whole(self, variant: Session, off: Session, sample: Sample) -> None:
        """Compare the times of the whole model; what another program disturbed is not slow twice."""
        from autofusion.tools.bench import interleave

        runs = {"variant": lambda: variant.run(sample.inputs), "off": lambda: off.run(sample.inputs)}
        for attempt in range(2):
            self.progress(f"measuring the whole model, attempt {attempt + 1}")
            after, before = (t.minimum for t in interleave(runs, seconds=1.0))
            if after <= WHOLE_SLOWER * before:
                return
        self._problem(SPEED, WHOLE, f"takes {1e3 * after:.3f} ms, level off {1e3 * before:.3f} ms")

    def _metric(self, look: str, variant: Session, dataset: DataSet | None, expected: dict[str, Any]) -> None:
        if dataset is None:
            from autofusion.errors import OptionError

            raise OptionError(f"metric '{look}' needs a data set: --data DIR")
        value, wanted = self._measured(look, variant.run, dataset, ""), expected["metrics"][look]
        if abs(value - wanted) > self.request.metric_tolerance:
            self._problem(look, look, f"{value:.6f}, {wanted:.6f} in the reference")

    def _measured(self, look: str, run: Any, dataset: DataSet, prefix: str) -> float:
        metric = make_metric(look, charset=dataset.charset, decode=self.request.decode)
        for index in range(len(dataset)):
            sample = dataset.sample(index)
            self.progress(f"{prefix}{look}: sample '{sample.name}'")
            metric.add(run(sample.inputs), sample.targets)
        return metric.value()
