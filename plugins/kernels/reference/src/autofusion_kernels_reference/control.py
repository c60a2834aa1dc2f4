"""Control flow by recursion: bodies are graphs that see only their own inputs, captures last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph, Node
from autofusion_kernels_reference.support import Inputs, optional

RunGraph = Callable[[Graph, list[Any]], list[Any]]
ControlFunction = Callable[[Node, Inputs, RunGraph], list[Any]]


def _parts(node: Node, inputs: Inputs) -> tuple[list[Any], list[Any]]:
    """(own operands, captures)."""
    own = len(inputs) - int(node.attr("captures", 0))
    return list(inputs[:own]), list(inputs[own:])


def _truth(value: Any) -> bool:
    return bool(np.asarray(value).reshape(()))


def _if(node: Node, inputs: Inputs, run_graph: RunGraph) -> list[Any]:
    (condition,), captures = _parts(node, inputs)
    return run_graph(node.attrs["then_branch" if _truth(condition) else "else_branch"], captures)


def _loop(node: Node, inputs: Inputs, run_graph: RunGraph) -> list[Any]:
    own, captures = _parts(node, inputs)
    body: Graph = node.attrs["body"]
    trips, condition = optional(own, 0), optional(own, 1)
    limit = None if trips is None else int(np.asarray(trips).reshape(()))
    going = True if condition is None else _truth(condition)
    carried = own[2:]
    scanned: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    count = 0
    while going and (limit is None or count < limit):
        step = run_graph(body, [np.array(count, np.int64), np.array(going), *carried, *captures])
        going = _truth(step[0])
        carried = step[1 : 1 + len(carried)]
        for collected, value in zip(scanned, step[1 + len(carried) :], strict=True):
            collected.append(value)
        count += 1
    outputs = body.outputs[1 + len(carried) :]
    return [*carried, *(_stacked(c, v) for c, v in zip(scanned, outputs, strict=True))]


def _stacked(collected: list[Any], value: Any) -> np.ndarray:
    """The scan outputs of all rounds along a new first axis; with no rounds, an empty one of the body's type."""
    if collected:
        return np.stack(collected)
    shape = [d if isinstance(d, int) else 0 for d in value.tensor.shape or ()]
    return np.zeros((0, *shape), value.tensor.dtype)


def _scan(node: Node, inputs: Inputs, run_graph: RunGraph) -> list[Any]:
    own, captures = _parts(node, inputs)
    body: Graph = node.attrs["body"]
    count = node.attrs["num_scan_inputs"]
    states, sources = own[: len(own) - count], own[len(own) - count :]
    results = len(body.outputs) - len(states)
    in_axes, in_back = (node.attr(f"scan_input_{what}") or [0] * count for what in ("axes", "directions"))
    out_axes, out_back = (node.attr(f"scan_output_{what}") or [0] * results for what in ("axes", "directions"))
    moved = [np.moveaxis(x, a, 0) for x, a in zip(sources, in_axes, strict=True)]
    moved = [x[::-1] if back else x for x, back in zip(moved, in_back, strict=True)]
    scanned: list[list[Any]] = [[] for _ in range(results)]
    for t in range(len(moved[0])):
        step = run_graph(body, [*states, *(np.ascontiguousarray(x[t]).reshape(x.shape[1:]) for x in moved), *captures])
        states = step[: len(states)]
        for collected, value in zip(scanned, step[len(states) :], strict=True):
            collected.append(value)
    made = []
    for collected, value, axis, back in zip(scanned, body.outputs[len(states) :], out_axes, out_back, strict=True):
        y = _stacked(collected, value)
        made.append(np.moveaxis(y[::-1] if back else y, 0, axis))
    return [*states, *made]


def _sequence_map(node: Node, inputs: Inputs, run_graph: RunGraph) -> list[Any]:
    own, captures = _parts(node, inputs)
    rounds = [
        run_graph(node.attrs["body"], [*(x[i] if isinstance(x, list) else x for x in own), *captures])
        for i in range(len(own[0]))
    ]
    return [[r[k] for r in rounds] for k in range(len(node.outputs))]


OPS: dict[str, ControlFunction] = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
