"""Runs a graph in every way there is and says where one differs from the reference kernels.

What rounding may do is measured, not guessed: the reference runs in single and in double precision and on inputs that
are changed by less than a millionth. Elements that these runs disagree on (a comparison that could go either way, a sum
that cancels) are given that much room; everything else must agree to 1e-4 of the output's range.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import autofusion as af
from autofusion.errors import AutofusionError
from autofusion.fusion.ledger import Verdict
from autofusion.ir.graph import Graph
from autofusion.testing.graphs import with_type
from autofusion_kernels_reference.evaluate import run_graph
from tests.fuzz.fuzz_make import nodes_of

RTOL = 1e-4
_HALF = 5e-3
_NUDGE = 5e-7
LEVELS = ("off", "basic", "full")


@dataclass(frozen=True, slots=True)
class Expected:
    """One output: its value, how far each element may be off, and which elements nobody can tell."""

    value: np.ndarray
    room: np.ndarray
    unsure: np.ndarray


def expectations(graph: Graph, feeds: Mapping[str, Any], seed: int = 0) -> list[Expected]:
    """What the outputs must be."""
    value = run_graph(graph, feeds)
    others = []
    rng = np.random.default_rng(seed)
    for _ in range(2):
        others.append(run_graph(graph, {n: _nudged(x, rng) for n, x in feeds.items()}))
    double = with_type(graph, np.dtype(np.float64))
    if double is not None and not any(n.op in ("QuantizeLinear", "DequantizeLinear") for n in nodes_of(graph)):
        wide = {n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in feeds.items()}
        try:
            others.append(run_graph(double, wide))
        except AutofusionError:
            pass  # an operator without double precision
    half = any(v.dtype is not None and v.dtype.name == "float16" for n in nodes_of(graph) for v in n.outputs)
    return [_expected(v, [o[i] for o in others], half) for i, v in enumerate(value)]


def _nudged(x: Any, rng: np.random.Generator) -> Any:
    if x.dtype != np.float32:
        return x
    return (x * (1 + _NUDGE * rng.standard_normal(x.shape))).astype(np.float32)


def _expected(value: np.ndarray, others: Sequence[np.ndarray], half: bool) -> Expected:
    value = np.asarray(value)
    wide = value.astype(np.float64)
    unsure = np.zeros(value.shape, bool)
    spread = np.zeros(value.shape)
    with np.errstate(all="ignore"):
        for other in others:
            other = np.asarray(other).astype(np.float64)
            if other.shape != value.shape:
                return Expected(value, spread, np.ones(value.shape, bool))
            same_kind = (np.isfinite(other) & np.isfinite(wide)) | (np.isnan(other) & np.isnan(wide)) | (other == wide)
            unsure |= ~same_kind
            spread = np.maximum(spread, np.where(np.isfinite(other) & np.isfinite(wide), np.abs(other - wide), 0))
    finite = np.abs(wide[np.isfinite(wide)])
    scale = float(finite.max(initial=0.0))
    if value.dtype.kind == "f":
        limit = _HALF if half else RTOL
        return Expected(value, limit * (scale + 1e-3) + 20 * spread, unsure)
    return Expected(value, np.zeros(value.shape), unsure | (spread > 0))


def difference(found: Any, expected: Expected) -> str:
    """How ``found`` differs; empty if it does not."""
    want = expected.value
    if not isinstance(found, np.ndarray) or found.shape != want.shape or found.dtype != want.dtype:
        kind = getattr(found, "dtype", type(found))
        return f"it is {kind}{list(np.shape(found))}, expected {want.dtype}{list(want.shape)}"
    a, b = found.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= expected.room
    same = expected.unsure | np.where(np.isfinite(b), np.isfinite(a) & near, (a == b) | (np.isnan(a) & np.isnan(b)))
    if same.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{int((~same).sum())} of {same.size} differ, first at {list(place)}: {a[place]}, expected {b[place]}"


@contextmanager
def isa(name: str | None) -> Iterator[None]:
    """Compile for that instruction set (None: the widest)."""
    old = os.environ.pop("AUTOFUSION_ISA", None)
    if name:
        os.environ["AUTOFUSION_ISA"] = name
    try:
        yield
    finally:
        os.environ.pop("AUTOFUSION_ISA", None)
        if old is not None:
            os.environ["AUTOFUSION_ISA"] = old


def isas() -> list[str | None]:
    """The instruction sets to try on this machine."""
    from autofusion_kernels_cpu.codegen.isa import host_isas

    return [i.name for i in host_isas()] or [None]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run: fusion level, threads, instruction set."""

    level: str
    threads: int
    isa: str | None

    def __str__(self) -> str:
        return f"level {self.level}, {self.threads} threads, {self.isa}"


def ways(number: int) -> list[Way]:
    """All levels, with the threads and instruction sets taken in turn; number 0 tries everything."""
    sets = isas()
    if number == 0:
        return [Way(level, threads, i) for level in LEVELS for threads in (1, 2) for i in sets]
    turn = number % 2
    return [Way(level, 1 + (turn + k) % 2, sets[(number // 2 + k) % len(sets)]) for k, level in enumerate(LEVELS)]


def compiled(graph: Graph, way: Way) -> af.Session:
    with isa(way.isa):
        return af.compile(graph.copy(), level=way.level, threads=way.threads)


def problems(graph: Graph, feeds: Mapping[str, Any], chosen: Sequence[Way], seed: int = 0) -> list[str]:
    """What goes wrong; an empty list if nothing does."""
    expected = expectations(graph, feeds, seed)
    found = []
    for way in chosen:
        try:
            session = compiled(graph, way)
            found += [f"{way}: rule error: {r.reason}" for r in session.ledger.of(Verdict.ERROR)]
            outputs = session.run(feeds)
            again = session.run(feeds)
        except Exception as error:
            found.append(f"{way}: {type(error).__name__}: {error}")
            continue
        for name, want in zip(graph.output_names, expected, strict=True):
            said = difference(outputs[name], want)
            if said:
                found.append(f"{way}: output '{name}': {said}")
            elif not same_bits(outputs[name], again[name]):
                found.append(f"{way}: output '{name}' is another at the second run")
        found += [f"{way}: rule error: {r.reason}" for r in session.ledger.of(Verdict.ERROR)]
    return list(dict.fromkeys(found))


def same_bits(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
