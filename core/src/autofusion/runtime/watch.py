"""See inside fused nodes without un-fusing them: the production plan runs, and bodies are replayed on its real values.

A watched value is found by its name in the source model. If it is a step's result it is read as it passes; if it
is inside a fused node, the node's real operands are read and its body is evaluated on them by the reference
kernels. If rules rewrote what computed it, the source model's own nodes are evaluated, from the nearest values that
are still there.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from autofusion.errors import OptionError, nearest
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.lowering.plan import Plan, Step
from autofusion.runtime.context import Context
from autofusion.runtime.executor import Stage
from autofusion.runtime.session import Session


@dataclass(frozen=True, slots=True)
class Watched:
    """``outputs`` are the model's, as of an unwatched run; ``values`` are what was watched, by value name."""

    outputs: dict[str, Any]
    values: dict[str, Any]


def watch(session: Session, names: Iterable[str], inputs: Mapping[str, Any]) -> Watched:
    """Run ``session`` on ``inputs`` and return the values ``names`` as well.

    A name is a value of the source model or a source node (then all its results are watched), in bodies of control
    flow too: what a loop computes is that of its last round. Raises OptionError for a name that the model does not
    have, for one in a body that was not run, and for a value of control flow that no longer exists.
    """
    wanted = value_names(session, names)
    return session.executor.attempt(
        session.arguments(inputs), lambda stage, given: _watched(session, stage, wanted, given)
    )


def _watched(session: Session, stage: Stage, wanted: Sequence[str], given: Sequence[Any]) -> Watched:
    found: dict[str, Any] = {}
    outer = {v.name for v in session.source.values()}
    inner = [name for name in wanted if name not in outer]
    with _observed(session.context, inner, found):
        outputs = _watch_stage(stage, session.context, wanted, given, found)
    missing = [name for name in inner if name not in found]
    if missing:
        raise OptionError(
            f"value '{missing[0]}' is in a body of control flow, and was not computed: the body was not run on these "
            "inputs, or rules rewrote it; try other inputs, or compile with level='off'"
        )
    gone = [name for name in wanted if name not in found]
    if gone:
        rest = _Rewritten(session, gone, _names_inside(stage))
        outputs = _watch_stage(stage, session.context, [*wanted, *rest.borders], given, found)
        rest.evaluate(found)
        found = {name: found[name] for name in wanted}
    return Watched(dict(zip(session.graph.output_names, outputs, strict=True)), found)


def _observed(context: Context, names: Sequence[str], found: dict[str, Any]) -> AbstractContextManager[None]:
    """While it lasts, what this thread runs of bodies of control flow adds the values ``names`` to ``found``."""
    if not names:
        return nullcontext()
    me = threading.get_ident()

    def observe(stage: Stage, given: Sequence[Any]) -> list[Any]:
        if threading.get_ident() != me:
            return stage.run(given)
        return _watch_stage(stage, context, names, given, found)

    return context.observation.by(observe)


def _nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of ``graph`` and of the bodies of its control flow."""
    for node in graph.nodes:
        yield node
        for attribute in node.attrs.values():
            if isinstance(attribute, Graph):
                yield from _nodes(attribute)


def value_names(session: Session, names: Iterable[str]) -> list[str]:
    """The values that ``names`` (values or nodes of the source model) mean; OptionError for an unknown one."""
    by_node: dict[str, list[str]] = {}
    values = {v.name for v in session.source.values()}
    for node in _nodes(session.source):
        values |= {v.name for v in node.outputs}
        for origin in node.origin or (node.name,):
            by_node.setdefault(origin, []).extend(v.name for v in node.outputs if v.use_count)
    outputs = dict(zip(session.source.output_names, session.source.outputs, strict=True))
    wanted: list[str] = []
    for name in names:
        if name in by_node:
            wanted += by_node[name]
        elif name in values:
            wanted.append(name)
        elif name in outputs:
            wanted.append(outputs[name].name)
        else:
            known = dict.fromkeys([*by_node, *values, *outputs])
            raise OptionError(
                f"the model has no node or value '{name}'{nearest(name, known)}; what is constant, or no output needs, "
                "is gone once a model is loaded"
            )
    return list(dict.fromkeys(wanted))


def surviving(session: Session, inputs: Mapping[str, Any]) -> list[str]:
    """Names of the source model's values that still exist in the plan for ``inputs`` (which is run if need be)."""

    def names(stage: Stage, given: Sequence[Any]) -> set[str]:
        if stage.tail is not None:
            stage.run(given)  # what follows is only planned as it runs
        return _names_inside(stage)

    there = session.executor.attempt(session.arguments(inputs), names)
    return [v.name for v in session.source.values() if v.producer is not None and v.name in there]


class _Rewritten:
    """Values that rules rewrote away: evaluated from what is still there, as the source model has it.

    A value keeps its name as long as it keeps its meaning, so the nearest values that still exist are found by name.
    """

    def __init__(self, session: Session, gone: Iterable[str], there: Collection[str]) -> None:
        self._context = session.context
        self._values = {v.name: v for v in session.source.values()}
        self._nodes: dict[Node, None] = {}
        self.borders: dict[str, None] = {}
        """Names to watch besides."""
        stack = [(name, False) for name in gone]
        while stack:
            name, ready = stack.pop()
            node = self._values[name].producer
            if node is None or name in there:
                self.borders[name] = None
            elif ready:
                self._nodes[node] = None
            elif node not in self._nodes:
                if any(isinstance(a, Graph) for a in node.attrs.values()):
                    raise OptionError(
                        f"value '{name}' no longer exists, and control flow is not replayed; "
                        "watch a later value, or compile with level='off'"
                    )
                stack.append((name, True))
                stack += [(v.name, False) for v in node.inputs if v is not None and v.const is None]

    def evaluate(self, found: dict[str, Any]) -> None:
        """Add the values of the rewritten nodes to ``found``, which has the borders."""
        for node in self._nodes:
            operands = [None if v is None else v.const if v.const is not None else found[v.name] for v in node.inputs]
            results = self._context.evaluate(node, operands)
            for value, result in zip(node.outputs, results, strict=True):
                found.setdefault(value.name, result)


def _names_inside(stage: Stage) -> set[str]:
    """Every value that the plans of a stage that has run still have, bodies of fused nodes included."""
    graph = stage.runner.plan.graph
    names = {v.name for v in graph.values()}
    names |= {v.name for node in graph.nodes if node.op == FUSED for inner in node.body.nodes for v in inner.outputs}
    for tail in stage.tail.stages[-1:] if stage.tail is not None else ():
        names |= _names_inside(tail)
    return names


def _watch_stage(
    stage: Stage, context: Context, wanted: Sequence[str], inputs: Sequence[Any], found: dict[str, Any]
) -> list[Any]:
    results = _Replay(stage.runner.plan, context, wanted).run(stage, inputs, found)
    if stage.tail is None:
        return results
    crossing = [results[i] for i in stage.split.crossing]
    tail = stage.tail.stage(stage.tail.key(crossing))
    late = _watch_stage(tail, context, wanted, crossing, found)
    return [late[i] if from_tail else results[i] for from_tail, i in stage.split.outputs]


class _Replay:
    """Which steps of one plan to look at, and what to make of what is seen."""

    def __init__(self, plan: Plan, context: Context, wanted: Sequence[str]) -> None:
        self._plan, self._context = plan, context
        self._graph = plan.graph
        self._steps = {step.node: number for number, step in enumerate(plan.steps) if not step.is_reorder}
        self._values: dict[Value, Any] = {}
        by_name = {v.name: v for v in self._graph.values()} | {v.name: v for v in self._graph.constants()}
        inner = {
            v.name: node for node in self._graph.nodes if node.op == FUSED for n in node.body.nodes for v in n.outputs
        }
        self._direct = {name: by_name[name] for name in wanted if name in by_name}
        self._inner: dict[Node, list[str]] = {}
        for name in wanted:
            if name not in by_name and name in inner:
                self._inner.setdefault(inner[name], []).append(name)
        self._look: set[int] = set()
        for value in self._direct.values():
            self._need(value)
        for node in self._inner:
            self._look.add(self._steps[node])

    def _need(self, value: Value) -> None:
        """Look at the step that makes ``value``; for a view, at what it is a view of."""
        node = value.producer
        if node is None:
            return
        if node in self._steps:
            self._look.add(self._steps[node])
        else:
            for operand in node.inputs:
                if operand is not None:
                    self._need(operand)

    def run(self, stage: Stage, inputs: Sequence[Any], found: dict[str, Any]) -> list[Any]:
        """Run the plan; add what was seen to ``found``; return the plan's outputs."""
        self._values.update(zip(self._graph.inputs, inputs, strict=True))

        def see(number: int, step: Step, operands: list[Any], results: list[Any]) -> None:
            self._values.update(zip(step.node.outputs, results, strict=True))
            if step.node in self._inner:
                replayed = replay(step.node.body, operands, self._context)
                found.update({v.name: x for v, x in replayed.items() if v.name in self._inner[step.node]})

        outputs = stage.runner.run_watched(inputs, self._look, see)
        for name, value in self._direct.items():
            found[name] = self._value(value)
        return outputs

    def _value(self, value: Value) -> Any:
        if value.const is not None:
            return value.const
        if value not in self._values:
            node = value.producer
            assert node is not None, f"graph input '{value.name}' has no value"
            operands = [None if v is None else self._value(v) for v in node.inputs]
            self._values.update(zip(node.outputs, self._context.evaluate(node, operands), strict=True))
        return self._values[value]


def replay(body: Graph, operands: Sequence[Any], context: Context) -> dict[Value, Any]:
    """Every value of a fused node's body, evaluated by the reference kernels on real operands."""
    values: dict[Value, Any] = dict(zip(body.inputs, operands, strict=True))
    for node in body.nodes:
        arrays = [None if v is None else v.const if v.const is not None else values[v] for v in node.inputs]
        values.update(zip(node.outputs, context.evaluate(node, arrays), strict=True))
    return values
