"""A graph with some sizes left open: the same session then runs one set of shapes after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import autofusion as af
from autofusion.errors import AutofusionError
from autofusion.fusion.ledger import Verdict
from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import TensorType, Type
from autofusion.testing.graphs import Rebuild
from tests.fuzz.fuzz_check import difference, expectations


class _Open(Rebuild):
    """Symbols in place of the sizes of some axes; None where it should not even have a name."""

    def __init__(self, axes: Mapping[str, Mapping[int, str | None]]) -> None:
        self._axes = axes

    def input(self, value: Value) -> tuple[Type | None, np.ndarray | None]:
        chosen = self._axes.get(value.name)
        if not chosen or not isinstance(value.type, TensorType) or value.type.shape is None:
            return value.type, value.default
        shape = tuple(chosen.get(i, d) for i, d in enumerate(value.type.shape))
        return value.type.with_shape(shape), value.default


def opened(graph: Graph, seed: int) -> tuple[Graph, dict[str, dict[int, str | None]]] | None:
    """The graph with open axes, and which they are: equal sizes get one symbol, or no name at all."""
    rng = np.random.default_rng(seed)
    axes: dict[str, dict[int, str | None]] = {}
    named = bool(rng.random() < 0.7)
    for value in graph.inputs:
        if value.default is not None:
            continue
        for axis, size in enumerate(value.tensor.static_shape):
            if rng.random() < (0.8 if axis == 0 else 0.3):
                axes.setdefault(value.name, {})[axis] = f"n{size}" if named else None
    if not axes:
        return None
    new = _Open(axes).of(graph)
    return None if new is None else (new, axes)


def resized(feeds: Mapping[str, Any], axes: Mapping[str, Mapping[int, str | None]], by: int) -> dict[str, Any]:
    """The inputs with every open axis longer (or shorter) by that many."""
    made = {}
    for name, x in feeds.items():
        for axis in axes.get(name, ()):
            size = max(x.shape[axis] + by, 0)
            x = np.take(x, np.arange(size) % max(x.shape[axis], 1), axis) if x.shape[axis] else x
        made[name] = np.array(x, order="C")
    return made


def problems_open(graph: Graph, feeds: Mapping[str, Any], seed: int, levels: Sequence[str]) -> list[str] | None:
    """What goes wrong with open sizes; None if the graph has no open form."""
    found = opened(graph, seed)
    if found is None:
        return None
    new, axes = found
    wrong = []
    for level in levels:
        try:
            session = af.compile(new.copy(), level=level, threads=1 + seed % 2)
        except Exception as error:
            wrong.append(f"open, level {level}: compile: {type(error).__name__}: {error}")
            continue
        for by in (0, 1, 3, -1, 0):
            inputs = resized(feeds, axes, by)
            try:
                expected = expectations(new, inputs, seed)
            except AutofusionError:
                continue  # the constants do not fit these sizes
            try:
                outputs = session.run(inputs)
            except Exception as error:
                wrong.append(f"open, level {level}, sizes {by:+}: {type(error).__name__}: {error}")
                continue
            for name, want in zip(new.output_names, expected, strict=True):
                said = difference(outputs[name], want)
                if said:
                    wrong.append(f"open, level {level}, sizes {by:+}: output '{name}': {said}")
        wrong += [f"open, level {level}: rule error: {r.reason}" for r in session.ledger.of(Verdict.ERROR)]
    return wrong
