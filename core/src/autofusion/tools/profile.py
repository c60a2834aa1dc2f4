"""Where the time goes: every step's time against what the machine could do and what the cost model expected.

Native steps are timed inside one run of the whole program, so they are seen in the cache state that they really have.
The figures are the least over runs, the first left out: a step for which all threads wait for one that another program
holds up takes many times that, in the median as well, and would be taken for the next hot spot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofusion.ir import operators
from autofusion.ir.graph import FUSED
from autofusion.ir.operators import Work
from autofusion.lowering.plan import Step
from autofusion.runtime.executor import Stage
from autofusion.runtime.session import Session
from autofusion.tools import status

WARM_UP = 3


@dataclass(frozen=True, slots=True)
class StepProfile:
    """One step: measured and predicted seconds, and the work it does."""

    step: Step
    seconds: float
    work: Work

    @property
    def what(self) -> str:
        """Operator, or kind of a fused node."""
        node = self.step.node
        return f"Fused {node.attrs['kind']}" if node.op == FUSED else node.op

    @property
    def label(self) -> str:
        """The source nodes that the step stands for."""
        origin = self.step.node.origin
        if len(origin) > 3:
            return f"{origin[0]} + {len(origin) - 1} more"
        return " + ".join(origin) or self.step.node.name

    @property
    def gflops(self) -> float:
        """Arithmetic rate in GFLOP/s."""
        return self.work.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbytes(self) -> float:
        """Compulsory traffic in GB/s."""
        return (self.work.bytes_read + self.work.bytes_written) / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """Steps in the order in which they run. ``peak_flops`` and ``bandwidth`` are the target's limits, all threads."""

    steps: list[StepProfile]
    peak_flops: float
    bandwidth: float

    @property
    def seconds(self) -> float:
        """All steps together."""
        return sum(s.seconds for s in self.steps)

    def by(self, key: str) -> list[tuple[str, float, int]]:
        """(name, seconds, steps), largest first; ``key`` is ``kernel`` or ``operator``."""
        totals: dict[str, tuple[float, int]] = {}
        for step in self.steps:
            name = step.step.kernel if key == "kernel" else step.what
            seconds, count = totals.get(name, (0.0, 0))
            totals[name] = (seconds + step.seconds, count + 1)
        return sorted(((n, s, c) for n, (s, c) in totals.items()), key=lambda row: -row[1])

    def headroom(self, step: StepProfile) -> float:
        """Seconds above the roofline: what a perfect kernel would still save."""
        floor = max(
            step.work.flops / self.peak_flops,
            (step.work.bytes_read + step.work.bytes_written) / self.bandwidth,
        )
        return max(step.seconds - floor, 0.0)


def profile(session: Session, inputs: Mapping[str, Any], runs: int = 20) -> Profile:
    """Profile ``session`` on ``inputs`` over ``runs`` runs. Steps of control-flow bodies count into their node."""
    given = session.arguments(inputs)
    stage = session.executor.stage(session.executor.key(given))
    samples: list[list[tuple[Step, float]]] = []
    for number in range(runs + WARM_UP):
        status.say(
            f"profiling level {session.context.options.level.name.lower()}: run {number + 1} of {runs + WARM_UP}"
        )
        times = _timed(stage, given)
        if number >= WARM_UP:
            samples.append(times)
    steps = [
        StepProfile(step, min(run[i][1] for run in samples), _work(step)) for i, (step, _) in enumerate(samples[0])
    ]
    target = session.context.target
    memory = max(target.bandwidth_l3 * target.threads, target.bandwidth_memory)
    return Profile(steps, target.peak_flops * target.threads, memory)


def _timed(stage: Stage, inputs: Sequence[Any]) -> list[tuple[Step, float]]:
    results, times = stage.runner.run_timed(inputs)
    if stage.tail is not None:
        crossing = [results[i] for i in stage.split.crossing]
        times += _timed(stage.tail.stage(stage.tail.key(crossing)), crossing)
    return times


def _work(step: Step) -> Work:
    if step.is_reorder:
        read = sum(v.type.nbytes for v in step.inputs if v is not None)
        return Work(0.0, float(read), float(read))
    return operators.work(step.node)


def lines(found: Profile, most: int = 25) -> list[str]:
    """The profile as text: kernels, then the ``most`` slowest steps, then the next hot spots."""
    total = found.seconds
    rows = [f"{1e3 * total:.3f} ms in {len(found.steps)} steps", "", "kernels:"]
    rows += [f"  {1e3 * s:9.3f} ms {100 * s / total:5.1f} %  {n:30} {c} steps" for n, s, c in found.by("kernel")]
    rows += ["", f"slowest steps (limits: {found.peak_flops / 1e9:.0f} GFLOP/s, {found.bandwidth / 1e9:.0f} GB/s):"]
    rows.append("         us  predicted  GFLOP/s   GB/s  kernel")
    for step in sorted(found.steps, key=lambda s: -s.seconds)[:most]:
        rows.append(
            f"  {1e6 * step.seconds:9.1f}  {1e6 * step.step.seconds:9.1f}  {step.gflops:7.1f}  {step.gbytes:5.1f}  "
            f"{step.step.kernel:28} {step.what}: {step.label}"
        )
    rows += ["", "next hot spots (time above what the machine's limits ask for):"]
    for step in sorted(found.steps, key=lambda s: -found.headroom(s))[:5]:
        rows.append(f"  {1e6 * found.headroom(step):9.1f} us  {step.step.kernel:28} {step.what}: {step.label}")
    return rows


def sites(before: Profile, after: Profile) -> list[tuple[StepProfile, float, int]]:
    """The fused sites of ``after``, each with the seconds and the number of the steps that its nodes take in
    ``before``; the largest change first. Sites whose nodes share a step with others there are left out.
    """
    alone = [(frozenset(s.step.node.origin), s.seconds) for s in before.steps if not s.step.is_reorder]
    found = []
    for step in after.steps:
        if step.step.node.op != FUSED:
            continue
        origin = frozenset(step.step.node.origin)
        parts = [(names, seconds) for names, seconds in alone if names & origin]
        if parts and all(names <= origin for names, _ in parts):
            found.append((step, sum(seconds for _, seconds in parts), len(parts)))
    return sorted(found, key=lambda row: -abs(row[1] - row[0].seconds))


def compare_lines(before: Profile, after: Profile, most: int = 25) -> list[str]:
    """What fusion changed: operator by operator, then the ``most`` sites that changed most."""
    rows = [f"level off {1e3 * before.seconds:.3f} ms in {len(before.steps)} steps, fused {1e3 * after.seconds:.3f} ms"]
    rows[0] += f" in {len(after.steps)} steps ({before.seconds / after.seconds:.2f}x)"
    old = {n: (s, c) for n, s, c in before.by("operator")}
    new = {n: (s, c) for n, s, c in after.by("operator")}
    for name in sorted(old.keys() | new.keys(), key=lambda n: -max(old.get(n, (0, 0))[0], new.get(n, (0, 0))[0])):
        (a, m), (b, n) = old.get(name, (0.0, 0)), new.get(name, (0.0, 0))
        rows.append(f"  {name:26} {1e3 * a:9.3f} ms ({m} steps) -> {1e3 * b:9.3f} ms ({n} steps)")
    changed = sites(before, after)
    if changed:
        rows += ["", "fused sites, what their nodes took alone and what they take:"]
    for step, seconds, count in changed[:most]:
        rows.append(
            f"  {1e6 * seconds:9.1f} us ({count:2} steps) -> {1e6 * step.seconds:9.1f} us  "
            f"{step.step.kernel:28} {step.what}: {step.label}"
        )
    if len(changed) > most:
        rows.append(f"  and {len(changed) - most} more")
    return rows


def as_data(found: Profile) -> dict[str, Any]:
    """The profile as plain data, seconds."""
    return {
        "seconds": found.seconds,
        "peak_flops": found.peak_flops,
        "bandwidth": found.bandwidth,
        "steps": [
            {
                "kernel": s.step.kernel,
                "operator": s.what,
                "origin": list(s.step.node.origin),
                "seconds": s.seconds,
                "predicted": s.step.seconds,
                "gflops": s.gflops,
                "gbytes": s.gbytes,
                "headroom": found.headroom(s),
            }
            for s in found.steps
        ],
    }


def chrome_trace(found: Profile) -> dict[str, Any]:
    """The profile in the trace-event format that chrome://tracing and Perfetto open; times in microseconds."""
    events: list[dict[str, Any]] = []
    start = 0.0
    for step in found.steps:
        events.append(
            {
                "name": f"{step.what} {step.label}",
                "cat": step.step.pack.name,
                "ph": "X",
                "ts": 1e6 * start,
                "dur": 1e6 * step.seconds,
                "pid": 0,
                "tid": 0,
                "args": {"kernel": step.step.kernel, "GFLOP/s": step.gflops, "predicted_us": 1e6 * step.step.seconds},
            }
        )
        start += step.seconds
    return {"traceEvents": events, "displayTimeUnit": "ns"}
