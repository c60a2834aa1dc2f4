"""Speed of sites: a fused site must not take longer than its parts do on their own kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autofusion.ir.graph import FUSED
from autofusion.lowering.plan import Step
from autofusion.runtime.session import Session
from autofusion.tools.verify.sites import site_name

RUNS = 7
SLACK = 100e-6
"""Seconds that may come on top: timers and other programs."""


def step_times(session: Session, inputs: Mapping[str, Any], runs: int = RUNS) -> list[tuple[Step, float]]:
    """Least seconds of every step, those of tails included; ``runs`` times."""
    best: list[tuple[Step, float]] = []
    for _ in range(runs):
        given = session.arguments(inputs)
        stage = session.executor.stage(session.executor.key(given))
        times: list[tuple[Step, float]] = []
        while True:
            results, taken = stage.runner.run_timed(given)
            times += taken
            if stage.tail is None:
                break
            given = [results[i] for i in stage.split.crossing]
            stage = stage.tail.stage(stage.tail.key(given))
        best = times if not best else [(s, min(a, b)) for (s, a), (_, b) in zip(best, times, strict=True)]
    return best


def slow_sites(full: Session, off: Session, inputs: Mapping[str, Any], slower: float) -> list[dict[str, Any]]:
    """A row for each fused site: its seconds and those of its nodes alone; ``reason`` if it is ``slower`` times slower.

    A node is attributed to the site that has all of its origins; one that is only a view takes no time alone.
    """
    times = step_times(off, inputs)
    alone = [(frozenset(s.node.origin or (s.node.name,)), t) for s, t in times if not s.is_reorder]
    rows = []
    for step, seconds in step_times(full, inputs):
        if step.node.op != FUSED or not step.node.origin:
            continue
        origin = frozenset(step.node.origin)
        parts = [(names, t) for names, t in alone if names <= origin]
        before = sum(t for _, t in parts)
        reason = ""
        if parts and seconds > slower * before + SLACK:
            reason = f"takes {1e3 * seconds:.3f} ms, its {len(parts)} parts alone {1e3 * before:.3f} ms"
        rows.append(
            {
                "site": site_name(step.node),
                "kernel": step.kernel,
                "rule": str(step.node.attr("rule", "")),
                "nodes": list(step.node.origin),
                "seconds": seconds,
                "before": before,
                "reason": reason,
            }
        )
    return rows


def lastingly_slow(
    full: Session, off: Session, inputs: Mapping[str, Any], slower: float, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The rows of sites that are slow in three measurements in a row: what another program disturbed is not."""
    slow: dict[tuple[str, str], dict[str, Any]] = {}
    for attempt in range(3):
        progress(f"measuring each site, attempt {attempt + 1}")
        rows = slow_sites(full, off, inputs, slower)
        found = {(r["site"], r["kernel"]): r for r in rows if r["reason"]}
        slow = found if attempt == 0 else {key: row for key, row in found.items() if key in slow}
        if not slow:
            break
    return list(slow.values())
