"""What ``verify`` does, as a job for a child process: load, compile at both levels, check, compare, count.

Everything found so far is kept as it goes, so that a crash halfway still leaves a report of the first half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import autofusion
from autofusion.errors import AutofusionError, InputError, OptionError, nearest
from autofusion.frontends.contract import LoadOptions
from autofusion.ir.graph import Graph
from autofusion.offers.guard import guarded
from autofusion.plugins.records import Status
from autofusion.plugins.registry import Registry, default_registry
from autofusion.runtime.session import Session
from autofusion.tools.child import Progress
from autofusion.tools.compare import compare
from autofusion.tools.inputs import Wanted
from autofusion.tools.metrics import Metric, make_metric
from autofusion.tools.samples import DataSet, Sample, disturbed, made_up, open_data, overflows
from autofusion.tools.verify.constants import Constants
from autofusion.tools.verify.exact import book_session, exact_session, widened
from autofusion.tools.verify.outputs import compare_outputs, is_far, judge_far, notes_of, same_bits
from autofusion.tools.verify.sites import SiteChecker
from autofusion.tools.verify.speed import lastingly_slow, slow_sites
from autofusion.tools.verify.suspect import first_deviation
from autofusion.tools.verify.tolerance import Tolerances

AGAINST = ("level-off", "framework", "reference")
_BROKEN = (Status.FAILED, Status.INCOMPATIBLE, Status.CONFLICT)
REFERENCE_RUN = "reference run"
"""Progress of such a run: an error there is of the inputs, not of the model."""
KEPT_EVERY = 0.5
"""Seconds of work on sites after which what is known is kept, for the case that a kernel ends the process."""
Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Request:
    """What to verify; plain data, so that it can be handed to a child process.

    ``settings`` are the keywords of ``autofusion.compile``. ``against`` is one of AGAINST. ``samples`` is how many
    samples of a data set steps 1 and 2 look at; the metrics see all. ``repeats`` is how often each is run.
    """

    model: str
    settings: dict[str, Any]
    shapes: dict[str, list[int]]
    data: str = ""
    against: str = "level-off"
    tolerances: dict[str, float] | None = None
    all_steps: bool = False
    metrics: tuple[str, ...] = ()
    decode: str = ""
    samples: int = 2
    repeats: int = 3
    seed: int = 0
    exact: bool = True
    speed: bool = True
    slower: float = 2.0
    wanted: dict[str, Any] = field(default_factory=dict)
    """Of made-up inputs: see ``autofusion.tools.inputs.Wanted``."""


def reference_run(against: str, path: Path, settings: Mapping[str, Any], off: Session, registry: Registry) -> Run:
    """What results are compared with: level off, the framework itself, or the reference kernels."""
    if against not in AGAINST:
        raise OptionError(
            f"cannot verify against '{against}': expected {', '.join(AGAINST)}{nearest(against, AGAINST)}"
        )
    if against == "level-off":
        return off.run
    if against == "reference":
        return book_session(off.source, registry).run
    frontend = registry.frontend_for(path)
    return frontend.reference(path, LoadOptions.of(settings, registry.converters(frontend.name)))


def not_loaded(registry: Registry) -> list[str]:
    """A sentence on each plugin that is installed and broken: what was verified ran without it."""
    return [f"not part of this, since it does not load: {r}" for r in registry.records if r.status in _BROKEN]


def compiled(model: str | Graph, settings: Mapping[str, Any], **more: Any) -> Session:
    """The session of a model file or a graph."""
    settings = dict(settings) | more
    if isinstance(model, Graph):
        for name in ("inputs", "outputs", "signature"):
            settings.pop(name, None)
    return autofusion.compile(model, **settings)


def verify_job(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The job: ``request`` is a Request as a dict; returns the report's data."""
    return _Verification(Request(**{**request, "metrics": tuple(request.get("metrics", ()))}), progress).run()


class _Verification:
    def __init__(self, request: Request, progress: Progress) -> None:
        self.request, self.progress = request, progress
        self.tolerances = Tolerances(request.tolerances or {})
        self.kept = 0.0
        self.exact_outputs: dict[str, Mapping[str, Any]] = {}
        """Of the last sample that every model takes, by its name."""
        self.sessions: list[Session] = []
        """Those that run what is verified, or what it is compared with."""
        self.data: dict[str, Any] = {
            "model": request.model,
            "against": request.against,
            "level": request.settings.get("level") or "full",
            "cases": [],
            "sites": [],
            "outputs": [],
            "repeats": [],
            "constants": [],
            "quarantined": [],
            "speed": [],
            "metrics": [],
            "notes": [],
        }

    def run(self) -> dict[str, Any]:
        request, progress = self.request, self.progress
        registry = default_registry()
        self._keep()
        progress("loading the model")
        settings = request.settings
        names = {k: tuple(settings.get(k) or ()) for k in ("inputs", "outputs")}
        source = autofusion.load(request.model, inputs=names["inputs"], outputs=names["outputs"])
        constants = Constants()
        constants.look(source)
        progress("compiling at level off")
        # Rule switches mean nothing at level off, kernel switches do: both sides run without what is switched off.
        off = compiled(source, settings, level="off")
        reference = reference_run(request.against, Path(request.model), names, off, registry)
        progress("compiling")
        full = compiled(source, settings)
        self.sessions = [full, off]
        self.data["notes"] += not_loaded(registry)
        self.data |= {"level": full.context.options.level.name.lower(), "threads": full.context.target.threads}
        dataset = open_data(Path(request.data), source) if request.data else None
        samples = self._samples(source, dataset)
        if dataset is not None:
            self._counted(dataset)  # a metric that there is not should be known before an hour's work
        exact = self._exact(source, registry) if request.exact else None
        checker = SiteChecker(full, self.tolerances, request.all_steps)
        checker.progress = lambda doing: self._site(doing, checker)
        self._keep(checker)
        for sample in samples:
            exact = self._case(sample, full, off, reference, exact, checker)
            for stage in (*full.stages, *off.stages):
                constants.look(stage.runner.plan.graph)
        self._one_thread(source, full, samples, reference)
        self.data["constants"] = constants.changed()
        if request.speed and request.settings.get("level") != "off":
            self._speed(full, off, samples[0])
        if dataset is not None and request.metrics:
            self._metrics(dataset, full, reference)
        self._keep()
        return self.data

    def _exact(self, source: Graph, registry: Registry) -> Session | None:
        try:
            return exact_session(source, registry)
        except Exception as error:  # an operator that exists in single precision only
            self.data["notes"].append(f"no run in double precision: {type(error).__name__}: {error}")
            return None

    def _samples(self, source: Graph, dataset: DataSet | None) -> list[Sample]:
        request = self.request
        if dataset is not None:
            return [dataset.sample(i) for i in range(min(request.samples, len(dataset)))]
        if request.metrics:
            raise OptionError(f"metric '{request.metrics[0]}' needs a data set: --data DIR")
        return made_up(
            source, {n: tuple(s) for n, s in request.shapes.items()}, request.seed, Wanted.of(request.wanted)
        )

    def _keep(self, checker: SiteChecker | None = None) -> None:
        self.data["quarantined"] = [
            {"kernel": f"{pack.name}:{kernel}", "version": pack.version, "reason": reason}
            for pack in {id(p): p for session in self.sessions for p in session.context.kernel_packs}.values()
            for kernel, reason in guarded(pack).quarantine_reasons.items()
        ]
        if checker is not None:
            self.data["sites"] = [r.data() for r in checker.results.values()]
        self.progress.keep(self.data)
        self.kept = time.monotonic()

    def _site(self, doing: str, checker: SiteChecker) -> None:
        """``doing`` begins; now and then, keep what is known of the sites before it."""
        if time.monotonic() - self.kept > KEPT_EVERY:
            self._keep(checker)
        self.progress(doing)

    # ---- steps 1 and 2 -----------------------------------------------------------------------------------------

    def _case(
        self, sample: Sample, full: Session, off: Session, reference: Run, exact: Session | None, checker: SiteChecker
    ) -> Session | None:
        """Look at one sample; return the session of the exact run, or None once it turned out not to work."""
        progress, data, name = self.progress, self.data, sample.name
        progress(f"{name}: {REFERENCE_RUN}")
        try:
            expected = reference(sample.inputs)
        except Exception as error:
            if not sample.optional and not self.request.data:
                raise InputError(
                    f"made-up inputs do not suit the model ({self.request.against}: {error}); state others with --data"
                ) from error
            if isinstance(error, InputError) and not sample.optional:
                raise InputError(
                    f"sample '{name}' of '{self.request.data}' does not suit the model: {error}"
                ) from error
            if not sample.optional:
                raise
            data["cases"].append(
                {"case": name, "shapes": sample.shapes, "skipped": f"the model does not take it: {error}"}
            )
            return exact
        if overflows(sample, expected):
            skipped = "the reference gets NaN or infinity from it"
            data["cases"].append({"case": name, "shapes": sample.shapes, "skipped": skipped})
            return exact
        data["cases"].append({"case": name, "shapes": sample.shapes, "skipped": ""})
        precise = None
        if exact is not None:
            progress(f"{name}: run in double precision")
            try:
                precise = exact.run({n: widened(np.asarray(v)) for n, v in sample.inputs.items()})
                self.exact_outputs = {name: precise} if not sample.optional else self.exact_outputs
            except Exception as error:  # an operator that exists in single precision only
                data["notes"].append(f"no run in double precision: {type(error).__name__}: {error}")
                exact = None
        outputs = checker.run(sample.inputs, name)
        self._keep(checker)
        last = self.request.repeats - 1
        for number in range(1, last + 1):
            if number == last:
                self._disturb(full, sample)
            checker.run(sample.inputs, name)
        different = 0
        for number in range(self.request.repeats):
            if number == last:
                self._disturb(full, sample)
            progress(f"{name}: run {number + 1}")
            got = full.run(sample.inputs)
            different += not same_bits(got, outputs)
        rows = self._compared(sample, name, got, expected, precise, off.source)
        data["repeats"].append({"case": name, "runs": self.request.repeats, "different": different})
        if any(row["reason"] for row in rows):
            progress(f"{name}: looking for the first value that deviates")
            found = self._suspect(full, off, sample)
            if found is not None:
                data["notes"].append(f"{name}: {found}")
        self._keep(checker)
        return exact

    def _compared(
        self,
        sample: Sample,
        case: str,
        got: Mapping[str, Any],
        expected: Mapping[str, Any],
        exact: Mapping[str, Any] | None,
        source: Graph,
    ) -> list[dict[str, Any]]:
        """Judge the outputs of one run; the rows are kept."""
        against = self.request.against
        rows = compare_outputs(got, expected, exact, self.tolerances, excuse=against != "framework", clean=sample.clean)
        far = [row for row in rows if is_far(row)] if against == "level-off" else []
        if far and exact is not None:
            self.progress(f"{case}: run on the reference kernels")
            plain = book_session(source).run(sample.inputs)
            for row in far:
                row["reason"] = judge_far(row, plain[row["output"]], exact[row["output"]])
        self.data["outputs"] += [{"case": case} | row for row in rows]
        self.data["notes"] += [f"{case}: {note}" for row in rows if not row["reason"] for note in notes_of(row)]
        return rows

    def _one_thread(self, source: Graph, full: Session, samples: list[Sample], reference: Run) -> None:
        """Run the last of the samples that every model takes with one thread: kernels may be other ones then."""
        if full.context.target.threads == 1:
            return
        sample = [s for s in samples if not s.optional][-1]
        case = f"{sample.name}, one thread"
        self.progress(f"{case}: compiling")
        alone = compiled(source, self.request.settings, threads=1)
        self.sessions.append(alone)
        self.progress(f"{case}: run")
        got, expected = alone.run(sample.inputs), reference(sample.inputs)
        exact = self.exact_outputs.get(sample.name)
        self._compared(sample, case, got, expected, exact, source)
        self._keep()

    def _disturb(self, full: Session, sample: Sample) -> None:
        """Run on something else in between: a kernel that leaves something behind shows in the run that follows."""
        self.progress(f"{sample.name}: a run on other inputs in between")
        full.run(disturbed(sample.inputs))

    def _suspect(self, full: Session, off: Session, sample: Sample) -> str | None:
        try:
            return first_deviation(full, off, sample.inputs)
        except AutofusionError as error:
            return f"the first value that deviates was not found: {error}"

    # ---- speed and metrics -------------------------------------------------------------------------------------

    def _speed(self, full: Session, off: Session, sample: Sample) -> None:
        self.progress("measuring each site")
        rows = slow_sites(full, off, sample.inputs, self.request.slower)
        if any(row["reason"] for row in rows):
            lasting = lastingly_slow(full, off, sample.inputs, self.request.slower, self.progress)
            slow = {(r["site"], r["kernel"]) for r in lasting}
            rows = [r if (r["site"], r["kernel"]) in slow else r | {"reason": ""} for r in rows]
        self.data["speed"] = rows
        self._keep()

    def _counted(self, dataset: DataSet) -> list[Metric]:
        """The metrics that were asked for, with nothing counted yet."""
        return [make_metric(n, charset=dataset.charset, decode=self.request.decode) for n in self.request.metrics]

    def _metrics(self, dataset: DataSet, full: Session, reference: Run) -> None:
        runs: dict[str, Run] = {"fused": full.run, "reference": reference}
        values: dict[str, dict[str, float]] = {name: {} for name in self.request.metrics}
        worst = None
        counted = {side: self._counted(dataset) for side in runs}
        for index in range(len(dataset)):
            sample = dataset.sample(index)
            results = {}
            for side, run in runs.items():
                self.progress(f"metrics: sample '{sample.name}' ({index + 1} of {len(dataset)}), {side}")
                results[side] = run(sample.inputs)
                for metric in counted[side]:
                    metric.add(results[side], sample.targets)
            apart = compare(results["fused"], results["reference"])
            worst = apart if worst is None else worst.worse(apart)
        for side, metrics in counted.items():
            for metric in metrics:
                values[metric.name][side] = metric.value()
        self.data["metrics"] = [{"metric": n, "samples": len(dataset), **v} for n, v in values.items()]
        if worst is not None:
            self.data["notes"].append(
                f"over all {len(dataset)} samples: largest error {worst.max_over_range:.2e} of the range, "
                f"mean relative {worst.mean_relative:.2e}"
            )
        self._keep()
