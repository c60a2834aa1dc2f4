"""How many steps are left of a graph, here and elsewhere, whether the numbers are right, and what the ledger says."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import autofusion
from autofusion.errors import AutofusionError
from autofusion.frontends.contract import Exporter
from autofusion.fusion.ledger import Ledger, Verdict
from autofusion.ir.graph import Graph
from autofusion.plugins.registry import default_registry
from autofusion.runtime.session import Session
from autofusion.testing.apply import run_graph_by_reference
from autofusion.testing.coverage.net import Variant
from autofusion.testing.coverage.peers import steps_of_peer
from autofusion.testing.coverage.spell import respelled
from autofusion.testing.graphs import near_misses
from autofusion.testing.numbers import ordinary_inputs
from autofusion.tools.compare import difference
from autofusion.tools.inputs import random_inputs

LIMIT = 1e-5
"""Largest error over the range of an output."""
_TELLING = (Verdict.ILLEGAL, Verdict.NO_KERNEL, Verdict.UNPROFITABLE, Verdict.DISABLED, Verdict.ERROR)


@dataclass(slots=True)
class Measured:
    """One spelling of a variant: the steps left, the error over the range, and the steps left by other runtimes.

    A peer that does not read the graph has no entry. ``said`` is what the ledger tells of a miss; empty if nothing.
    """

    variant: Variant
    spelling: str
    steps: int
    error: float
    kernels: tuple[str, ...]
    said: str = ""
    peers: dict[str, int] = field(default_factory=dict)

    @property
    def fused(self) -> bool:
        """True if no more steps are left than there could be, and the numbers are right."""
        return self.steps <= self.variant.ideal and self.error <= LIMIT

    def fused_by(self, peer: str) -> bool:
        """True if the peer leaves no more steps than there could be."""
        return peer in self.peers and self.peers[peer] <= self.variant.ideal


def measure(
    variants: Iterable[Variant],
    peers: Sequence[str] = (),
    *,
    spellings: int | None = None,
    tell: Callable[[Measured], None] = lambda one: None,
) -> list[Measured]:
    """Every variant in its own form and in the first ``spellings`` others (all of them by default)."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for variant in variants:
            for spelling, graph in _spelled(variant, spellings):
                one = _measured(variant, spelling, graph, variant.graph(), peers, Path(folder))
                tell(one)
                found.append(one)
    return found


def _spelled(variant: Variant, count: int | None) -> Iterator[tuple[str, Graph]]:
    graph = variant.graph()
    yield "as it is", graph
    yield from itertools.islice(respelled(graph), count)


def _measured(
    variant: Variant, spelling: str, graph: Graph, static: Graph, peers: Sequence[str], folder: Path
) -> Measured:
    feeds = feeds_of(static)
    try:
        session, error = run_both(graph, static, feeds)
    except AutofusionError as refused:
        return Measured(variant, spelling, len(static), np.inf, (), f"it does not compile: {refused}")
    kernels = tuple(step.kernel for step in session.plan.steps if not step.is_reorder)
    one = Measured(variant, spelling, len(kernels), error, kernels)
    if not one.fused:
        one.said = reason_of(session.ledger)
    if peers:
        path = folder / "graph.onnx"
        if _written(graph, path):
            counted = {peer: steps_of_peer(peer, path, feeds) for peer in peers}
            one.peers = {peer: steps for peer, steps in counted.items() if steps is not None}
    return one


def feeds_of(graph: Graph) -> dict[str, np.ndarray]:
    """Random inputs: floats about 0, and integers that stay inside the tables that they index."""
    ordinary, inside = (
        ordinary_inputs(graph),
        random_inputs(graph, {v.name: v.tensor.static_shape for v in graph.inputs}),
    )
    return {name: array if array.dtype.kind == "f" else inside[name] for name, array in ordinary.items()}


def run_both(graph: Graph, static: Graph, feeds: Mapping[str, np.ndarray]) -> tuple[Session, float]:
    """A session of ``graph`` for the sizes of ``feeds``, and its largest error against ``static`` by the reference
    kernels, over the range of each output.
    """
    session = autofusion.compile(graph.copy(), shapes={name: array.shape for name, array in feeds.items()})
    results = session.run(dict(feeds))
    expected = run_graph_by_reference(static, feeds)
    pairs = zip(results.values(), expected, strict=True)
    apart = [difference(np.asarray(found), np.asarray(wanted)) for found, wanted in pairs]
    return session, max(d.max_over_range if d.same_nonfinite else np.inf for d in apart)


def reason_of(ledger: Ledger) -> str:
    """The ledger's word on why something was not fused: the first record with a reason, and its culprit."""
    for verdict in _TELLING:
        for told in ledger.of(verdict):
            where = f" ({told.culprit})" if told.culprit else ""
            return f"{told.rule.split('@')[0]} {verdict.value}: {told.reason}{where}"
    return ""


def wrong_near_misses(graph: Graph, count: int | None = None) -> list[str]:
    """Graphs that look like ``graph`` and mean something else, of which what runs here does not compute that."""
    wrong = []
    for what, other in itertools.islice(near_misses(graph), count):
        _, error = run_both(other, other, feeds_of(other))
        if error > LIMIT:
            wrong.append(f"{what}: off by {error:.1e} of the range")
    return wrong


def _written(graph: Graph, path: Path) -> bool:
    """Write the graph for other runtimes; False if no frontend can."""
    writer = next(
        (f for f in default_registry().frontends if isinstance(f, Exporter) and path.suffix in f.suffixes), None
    )
    if writer is None:
        return False
    try:
        writer.export(graph.copy(), path, inline=True)
    except AutofusionError:
        return False
    return True
