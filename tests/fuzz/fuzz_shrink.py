"""Makes a failing graph smaller: fewer outputs, and values taken as inputs instead of being computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import of_array
from autofusion_kernels_reference.evaluate import evaluate

Fails = Callable[[Graph, Mapping[str, Any]], bool]


def shrink(graph: Graph, feeds: Mapping[str, Any], fails: Fails, budget: int = 200) -> tuple[Graph, dict[str, Any]]:
    """The smallest graph found that still fails, with its inputs."""
    best, best_feeds = graph, dict(feeds)
    progress = True
    while progress and budget > 0:
        progress = False
        for candidate, candidate_feeds in _smaller(best, best_feeds):
            budget -= 1
            if budget <= 0:
                break
            try:
                failing = fails(candidate, candidate_feeds)
            except AutofusionError:
                failing = False
            if failing:
                best, best_feeds, progress = candidate, candidate_feeds, True
                break
    return best, best_feeds


def _smaller(graph: Graph, feeds: Mapping[str, Any]):  # type: ignore[no-untyped-def]
    if len(graph.outputs) > 1:
        for index in range(len(graph.outputs)):
            yield _with_outputs(graph, feeds, [index])
        for index in range(len(graph.outputs)):
            yield _with_outputs(graph, feeds, [i for i in range(len(graph.outputs)) if i != index])
    values = _values(graph, feeds)
    nodes = graph.nodes
    for node in reversed(nodes):  # end earlier
        for index, value in enumerate(graph.outputs):
            if value.producer is node:
                for operand in node.inputs:
                    if operand is not None and operand.producer is not None:
                        yield _output_moved(graph, feeds, index, operand.name)
    for node in nodes:  # begin later
        if all(isinstance(values[v.name], np.ndarray) for v in node.outputs):
            yield _cut(graph, feeds, [v.name for v in node.outputs], values)


def _values(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {v.name: feeds.get(v.name, v.default) for v in graph.inputs}
    for node in graph.nodes:
        operands = [None if v is None else v.const if v.const is not None else found[v.name] for v in node.inputs]
        for value, result in zip(node.outputs, evaluate(node, operands), strict=True):
            found[value.name] = result
    return found


def _done(graph: Graph, feeds: Mapping[str, Any]) -> tuple[Graph, dict[str, Any]]:
    graph.prune()
    graph.sort()
    graph.inputs = [v for v in graph.inputs if v.use_count]
    names = {v.name for v in graph.inputs}
    return graph, {n: x for n, x in feeds.items() if n in names}


def _with_outputs(graph: Graph, feeds: Mapping[str, Any], kept: list[int]) -> tuple[Graph, dict[str, Any]]:
    copy = graph.copy()
    outputs = [(copy.outputs[i], copy.output_names[i]) for i in kept]
    for value in copy.outputs:
        value._graph_outputs -= 1
    copy._outputs.clear()
    copy.output_names.clear()
    for value, name in outputs:
        copy.add_output(value, name)
    return _done(copy, feeds)


def _named(graph: Graph, name: str) -> Value:
    return next(v for v in graph.values() if v.name == name)


def _output_moved(graph: Graph, feeds: Mapping[str, Any], index: int, name: str) -> tuple[Graph, dict[str, Any]]:
    copy = graph.copy()
    copy.set_output(index, _named(copy, name))
    return _done(copy, feeds)


def _cut(
    graph: Graph, feeds: Mapping[str, Any], names: list[str], values: Mapping[str, Any]
) -> tuple[Graph, dict[str, Any]]:
    copy, new = graph.copy(), dict(feeds)
    for name in names:
        old = _named(copy, name)
        if old.use_count:
            fresh = copy.add_input(f"{name}_in", of_array(values[name]))
            copy.replace_uses(old, fresh)
            new[fresh.name] = values[name]
    return _done(copy, new)
