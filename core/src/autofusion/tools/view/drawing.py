"""What is drawn of a session: its plans as one graph of boxes and lines, as plain data.

A model whose shapes are partly known at run time only has several plans, one after the other; they are joined here,
since a reader thinks of one network. Layout changes that lowering added are not boxes of their own: they are told with
the value that they copy. Nodes are in topological order, and an edge is ``[from, to]`` by position in that list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.operators import OpClass, op_class
from autofusion.ir.types import of_array
from autofusion.lowering.plan import Plan, Step
from autofusion.runtime.executor import Stage
from autofusion.runtime.session import Session
from autofusion.tools.explain import refusals

Drawn = dict[str, Any]
"""``nodes`` and ``edges``."""

_STRENGTH = (OpClass.CONTRACTION, OpClass.REDUCTION, OpClass.POINTWISE, OpClass.MOVEMENT, OpClass.OPAQUE)
"""A fused node has the class of the strongest operator in it."""
_HIDDEN_ATTRIBUTES = frozenset({"kind", "rule", "body", "captures"})
LONGEST_TEXT = 120
"""Characters of an attribute that are shown."""


def drawn(session: Session, seconds: Mapping[int, float] | None = None) -> Drawn:
    """The graph that ``session`` runs. ``seconds`` are measured times by the id of the step's node."""
    drawing = _Drawing(session, seconds or {})
    graph = session.graph
    inputs = [
        drawing.border("Input", v.name, str(session.stage.graph.inputs[i].type)) for i, v in enumerate(graph.inputs)
    ]
    results = drawing.stage(session.stage, inputs)
    for name, source, value in zip(graph.output_names, results, session.stage.graph.outputs, strict=True):
        drawing.border("Output", name, str(value.type), source)
    return {"nodes": drawing.nodes, "edges": drawing.edges}


class _Drawing:
    def __init__(self, session: Session, seconds: Mapping[int, float]) -> None:
        self._bodies = session.context.bodies
        self._session, self._seconds = session, seconds
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[list[int]] = []

    def border(self, op: str, name: str, type_: str, source: int | None = None) -> int:
        """An input or output of the model as a node."""
        self.nodes.append({"op": op, "name": name, "cls": "border", "outs": [[name, type_]]})
        if source is not None:
            self.edges.append([source, len(self.nodes) - 1])
        return len(self.nodes) - 1

    def stage(self, stage: Stage, inputs: Sequence[int | None]) -> list[int | None]:
        """Draw a stage and what follows it; return the node behind each output of the whole."""
        plan = stage.runner.plan
        where = dict(zip(plan.graph.inputs, inputs, strict=True))
        self._plan(plan, where)
        results = [where.get(v) for v in plan.graph.outputs]
        if stage.tail is None or not stage.tail.stages:
            return results
        late = self.stage(stage.tail.stages[-1], [results[i] for i in stage.split.crossing])
        return [late[i] if from_tail else results[i] for from_tail, i in stage.split.outputs]

    def _plan(self, plan: Plan, where: dict[Value, int | None]) -> None:
        steps = {s.node: s for s in plan.steps if not s.is_reorder}
        views = dict(plan.views)
        names: dict[str, int] = {v.name: at for v, at in where.items() if at is not None}
        for node in plan.graph.nodes:
            at = self._node(node, where)
            told = self.nodes[at]
            if node in steps:
                told |= self._step(steps[node])
            elif node in views:
                told["free"] = views[node]
            names.update((v.name, at) for v in node.outputs)
        for step in plan.steps:
            copied = step.node.inputs[0] if step.is_reorder else None
            if copied is not None and copied.name in names:
                copies = self.nodes[names[copied.name]].setdefault("copies", [])
                copies.append({"name": step.node.output.name, **self._step(step)})

    def _node(self, node: Node, where: dict[Value, int | None]) -> int:
        told, sources = _told(node, where)
        at = len(self.nodes)
        self.nodes.append(told)
        self.edges += [[source, at] for source in sources]
        where.update(dict.fromkeys(node.outputs, at))
        if node.op == FUSED:
            told |= {"kind": node.attrs["kind"], "rule": node.attrs["rule"], "bodies": [_graph("", node.body)]}
        else:
            bodies = [self._body(n, a) for n, a in node.attrs.items() if isinstance(a, Graph)]
            if bodies:
                told["bodies"] = bodies
        return at

    def _body(self, name: str, body: Graph) -> Drawn:
        """The body of a control-flow node, as it runs if it has run."""
        compiled = self._bodies.get(id(body))
        stages = compiled.executor.stages if compiled is not None else []
        if not stages:
            return _graph(name, body)
        inner = _Drawing(self._session, self._seconds)
        inner.stage(stages[-1], [None] * len(body.inputs))
        return {"name": name, "nodes": inner.nodes, "edges": inner.edges}

    def _step(self, step: Step) -> dict[str, Any]:
        told: dict[str, Any] = {"kernel": step.kernel, "version": step.pack.version, "predicted": step.seconds}
        if step.pack.is_reference:
            told["slow"] = True
        if id(step.node) in self._seconds:
            told["seconds"] = self._seconds[id(step.node)]
        if step.losers:
            told["lost"] = [[kernel, seconds] for kernel, seconds in step.losers]
        if refusals(step):
            told["refused"] = [list(pair) for pair in refusals(step)]
        return told


def _graph(name: str, graph: Graph) -> Drawn:
    """A graph that has no plan of its own: the body of a fused node."""
    where: dict[Value, int | None] = {}
    nodes: list[dict[str, Any]] = []
    edges: list[list[int]] = []
    for node in graph.nodes:
        told, sources = _told(node, where)
        edges += [[source, len(nodes)] for source in sources]
        where.update(dict.fromkeys(node.outputs, len(nodes)))
        nodes.append(told)
    return {"name": name, "nodes": nodes, "edges": edges}


def _told(node: Node, where: Mapping[Value, int | None]) -> tuple[dict[str, Any], list[int]]:
    """A node as data, and the nodes that its operands come from."""
    sources = dict.fromkeys(at for v in node.inputs if v is not None and (at := where.get(v)) is not None)
    told: dict[str, Any] = {
        "op": node.op,
        "name": node.origin[0] if node.origin else node.name,
        "origin": list(node.origin or (node.name,)),
        "cls": _class(node).value,
        "ins": [
            ["", "absent"] if v is None else [v.name, str(v.type), *(["constant"] if v.is_constant else [])]
            for v in node.inputs
        ],
        "outs": [[v.name, str(v.type)] for v in node.outputs],
    }
    attributes = {
        n: _text(a) for n, a in node.attrs.items() if n not in _HIDDEN_ATTRIBUTES and not isinstance(a, Graph)
    }
    if attributes:
        told["attrs"] = attributes
    return told, list(sources)


def _class(node: Node) -> OpClass:
    if node.op != FUSED:
        return op_class(node)
    return _strongest(op_class(inner) for inner in node.body.nodes)


def _strongest(classes: Iterable[OpClass]) -> OpClass:
    return min(classes, key=_STRENGTH.index, default=OpClass.OPAQUE)


def _text(attribute: Any) -> str:
    if isinstance(attribute, np.ndarray):
        text = str(of_array(attribute)) if attribute.size > 8 else str(attribute.tolist())
    elif isinstance(attribute, np.dtype):
        text = dtype_name(attribute)
    elif isinstance(attribute, float):
        text = f"{attribute:.7g}"
    else:
        text = str(attribute)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
