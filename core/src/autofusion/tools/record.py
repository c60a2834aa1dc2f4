"""A baseline: what was decided, how exact it was and what it gained, for models that an upgrade must not harm.

Times of another day or machine say nothing, so what is kept is the ratio to level off, both sides measured in turns,
with the spread of the ratio over the turns. Level off runs the same kernels, so it does not tell when those get slower:
a fixed probe of the core's own is measured in the same turns, and the ratio to it is kept as well. Errors are kept
against level off (what the rules do) and, where the model's own framework is installed, against that (what the kernels
do as well).
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import autofusion
from autofusion.errors import AutofusionError
from autofusion.frontends.contract import LoadOptions
from autofusion.plugins.registry import default_registry
from autofusion.runtime.session import Session
from autofusion.tools import explain
from autofusion.tools.baseline import planned
from autofusion.tools.compare import compare
from autofusion.tools.inputs import random_inputs
from autofusion.tools.provenance import digest, provenance

FORMAT = 1
LEAST_TURNS = 7
PROBE_SIDE = 128
PROBE_BYTES = 8 << 20
_BLOCK_SECONDS = 0.06
_KEPT = ("rule", "verdict", "site", "nodes", "reason", "kind", "kernel", "stage")

Run = Callable[[], object]
Shapes = Mapping[str, Sequence[int]]


def record(
    models: Sequence[tuple[Path, Shapes]], folder: Path, seconds: float, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The baseline of ``models`` (with the shapes to run them in) as plain data; paths are kept relative to ``folder``.

    ``seconds`` is the time to measure each model for; 0 measures nothing. ``settings`` are those of
    ``autofusion.compile``.
    """
    return {
        "format": FORMAT,
        "core": autofusion.__version__,
        "packs": {r.dist: r.version for r in default_registry().records},
        "settings": {k: v for k, v in settings.items() if v not in (None, (), {}, "")},
        "provenance": provenance(None, settings),
        "models": [measured(path, shapes, folder, seconds, settings) for path, shapes in models],
    }


def measured(path: Path, shapes: Shapes, folder: Path, seconds: float, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of one model. Raises AutofusionError if it cannot be compiled or run."""
    full = planned(autofusion.compile(path, shapes=shapes or None, **settings), shapes)
    off = planned(autofusion.compile(path, shapes=shapes or None, **{**settings, "level": "off"}), shapes)
    feeds = random_inputs(full.graph, shapes)
    outputs, unfused = full.run(feeds), off.run(feeds)
    errors = {"off": asdict(compare(outputs, unfused))}
    expected = _by_framework(path, feeds, settings)
    if expected is not None and set(expected) >= set(outputs):
        errors["framework"] = asdict(compare(outputs, {name: expected[name] for name in outputs}))
    data, run = explain.as_data(full), functools.partial(full.run, feeds)
    return {
        "model": os.path.relpath(path, folder),
        "digest": digest(path),
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "threads": data["threads"],
        "predicted": data["predicted"],
        "peak_bytes": data["peak_bytes"],
        "records": [{k: r[k] for k in _KEPT if k in r} for r in data["records"]],
        "kernels": kernels(full),
        "errors": errors,
        **dict(
            zip(("ratio", "probe"), ratios(run, (functools.partial(off.run, feeds), Probe()), seconds), strict=True)
        ),
    }


def kernels(session: Session) -> dict[str, str]:
    """Source node -> the kernel that runs it, with its pack's version; layout changes are not source nodes."""
    found: dict[str, str] = {}
    for plan in explain.plans(session):
        for step in plan.steps:
            if not step.is_reorder:
                found |= {name: f"{step.kernel}@{step.pack.version}" for name in step.node.origin or (step.node.name,)}
    return found


def _by_framework(path: Path, feeds: Mapping[str, Any], settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The outputs by the model's own framework; None where that is not installed, or does not take the model."""
    registry = default_registry()
    try:
        frontend = registry.frontend_for(path)
        return frontend.reference(path, LoadOptions.of(settings, registry.converters(frontend.name)))(feeds)
    except AutofusionError:
        return None


class Probe:
    """A fixed piece of work without kernel packs: a matrix product that fits a core's cache, a copy that does not."""

    def __init__(self) -> None:
        self._factor = np.linspace(-1.0, 1.0, PROBE_SIDE * PROBE_SIDE, dtype=np.float32).reshape(PROBE_SIDE, PROBE_SIDE)
        self._product = np.empty_like(self._factor)
        self._source = np.ones(PROBE_BYTES, np.uint8)
        self._copy = np.empty_like(self._source)

    def __call__(self) -> None:
        np.matmul(self._factor, self._factor, out=self._product)
        np.copyto(self._copy, self._source)


def ratios(run: Run, bases: Sequence[Run], seconds: float) -> list[dict[str, Any] | None]:
    """Time of ``run`` over that of each of ``bases``, in turns for about ``seconds``; None for each if that is 0.

    Median and quartiles are over the turns.
    """
    if seconds <= 0:
        return [None] * len(bases)
    counts = [max(1, int(_BLOCK_SECONDS / _warm(r))) for r in (*bases, run)]
    found: list[list[float]] = [[] for _ in bases]
    end = time.perf_counter() + seconds
    turns = 0
    while time.perf_counter() < end or turns < LEAST_TURNS:
        *before, own = [_block(r, count) for r, count in zip((*bases, run), counts, strict=True)]
        for kept, base in zip(found, before, strict=True):
            kept.append(own / base)
        turns += 1
    return [_summary(kept) for kept in found]


def _summary(some: Sequence[float]) -> dict[str, Any]:
    low, median, high = statistics.quantiles(some, n=4)
    return {"median": median, "low": low, "high": high, "turns": len(some)}


def _warm(run: Run) -> float:
    run()
    start = time.perf_counter()
    run()
    return max(time.perf_counter() - start, 1e-6)


def _block(run: Run, count: int) -> float:
    """Median seconds of ``count`` runs."""
    run()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
