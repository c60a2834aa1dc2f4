"""Finds the control flow that TensorFlow 1 (and its lowering in TensorFlow 2) spells in Switch, Merge, Enter, Exit and
NextIteration nodes, and writes it as While and If nodes with bodies, so that one importer serves both spellings.

Loops first, innermost first: a frame's Merge nodes are its variables, what LoopCond reads is its condition, what
NextIteration reads its body. What is left are conditionals: a Merge joins two values that exist under opposite outcomes
of a predicate, which follows from the Switch nodes (by data or control edges) that they depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autofusion.frontends import ModelError
from autofusion_frontend_tensorflow.source import Body, Ref, SourceNode

_PREFIX = "Ref"
_OPS = {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "_SwitchN"}
_SWITCHES = ("Switch", "_SwitchN")
_SAME = {"Identity", "StopGradient"}


def _kind(node: SourceNode | None) -> str:
    """``Switch`` for Switch and RefSwitch, and so on; empty for ordinary operators."""
    if node is None:
        return ""
    op = node.op.removeprefix(_PREFIX) if node.op.startswith(_PREFIX) else node.op
    return op if op in _OPS else ""


def structurize(body: Body) -> Body:
    """``body`` without Switch, Merge and their like. Raise ModelError for what is neither a loop nor a conditional."""
    if not any(_kind(node) for node in body.nodes.values()):
        return body
    nodes = dict(body.nodes)
    _structurize_loops(nodes)
    _Conditionals(nodes).run()
    return Body(body.name, nodes, body.arguments, body.results)


def _collect(
    nodes: Mapping[str, SourceNode], results: Sequence[Ref], argument: Callable[[Ref], str | None], name: str
) -> tuple[Body, dict[str, Ref]]:
    """The nodes that ``results`` depend on, as a body; ``argument`` names a value that comes from outside.

    Also returns the arguments that are read, with the values that they stand for.
    """
    found: dict[str, SourceNode] = {}
    arguments: dict[str, Ref] = {}

    def inner(ref: Ref) -> Ref:
        outside = argument(ref)
        if outside is not None:
            arguments[outside] = ref
            return outside, 0
        stack.append(ref[0])
        return ref

    stack: list[str] = []
    ends = tuple(inner(ref) for ref in results)
    while stack:
        node_name = stack.pop()
        if node_name in found:
            continue
        node = nodes.get(node_name)
        if node is None:
            raise ModelError(f"'{name}' reads '{node_name}', which no node of the model is called")
        found[node_name] = node  # before its operands, against cycles
        inputs = tuple(inner(ref) for ref in node.inputs)
        found[node_name] = SourceNode(node.name, node.op, inputs, node.attrs, node.bodies, node.controls)
    return Body(name, found, (), ends), arguments


# ---- loops --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Frame:
    """The nodes of one loop."""

    name: str
    merges: list[SourceNode]
    initial: list[Ref]
    nexts: list[Ref]
    switches: dict[str, int]
    """Switch node -> the variable that it is of."""
    invariants: dict[str, Ref]
    """Enter node of a value that does not change -> that value."""
    condition: Ref
    loop_condition: str


def _structurize_loops(nodes: dict[str, SourceNode]) -> None:
    frames = _frames(nodes)
    while frames:
        rest = []
        for frame in frames:
            if not _structurize_loop(nodes, frame):
                rest.append(frame)
        if len(rest) == len(frames):
            raise ModelError(f"loop '{rest[0].name}' is not built like a while loop of TensorFlow")
        frames = rest


def _remove_downstream(nodes: dict[str, SourceNode], gone: set[str]) -> None:
    """Remove ``gone`` and what depends on it: the inside of a loop, which is in its bodies now."""
    readers: dict[str, list[str]] = {}
    for node in nodes.values():
        for ref in node.inputs:
            readers.setdefault(ref[0], []).append(node.name)
    stack = list(gone)
    while stack:
        name = stack.pop()
        if nodes.pop(name, None) is not None:
            stack.extend(readers.get(name, ()))


def _frames(nodes: Mapping[str, SourceNode]) -> list[_Frame]:
    enters: dict[str, list[SourceNode]] = {}
    for node in nodes.values():
        if _kind(node) == "Enter":
            enters.setdefault(str(node.attr("frame_name", "")), []).append(node)
    readers: dict[str, list[SourceNode]] = {}
    for node in nodes.values():
        for ref in node.inputs:
            readers.setdefault(ref[0], []).append(node)
    return [_frame(nodes, readers, name, own) for name, own in enters.items()]


def _frame(
    nodes: Mapping[str, SourceNode], readers: Mapping[str, list[SourceNode]], name: str, enters: list[SourceNode]
) -> _Frame:
    frame = _Frame(name, [], [], [], {}, {}, ("", 0), "")
    conditions = set()
    for enter in enters:
        merge = next((n for n in readers.get(enter.name, ()) if _kind(n) == "Merge"), None)
        if merge is None:
            frame.invariants[enter.name] = enter.inputs[0]
            continue
        following = [nodes[r[0]] for r in merge.inputs if _kind(nodes.get(r[0])) == "NextIteration"]
        if len(following) != 1:
            raise ModelError(f"loop '{name}': {merge.label} must join a value with that of the next iteration")
        for reader in readers.get(merge.name, ()):
            if _kind(reader) == "Switch":
                frame.switches[reader.name] = len(frame.merges)
                conditions.add(reader.inputs[1][0])
        frame.merges.append(merge)
        frame.initial.append(enter.inputs[0])
        frame.nexts.append(following[0].inputs[0])
    conditions = {c for c in conditions if _kind(nodes.get(c)) == "LoopCond"}
    if len(conditions) != 1:
        raise ModelError(f"loop '{name}' must have one condition, found {len(conditions)}")
    frame.loop_condition = conditions.pop()
    frame.condition = nodes[frame.loop_condition].inputs[0]
    return frame


def _structurize_loop(nodes: dict[str, SourceNode], frame: _Frame) -> bool:
    """Replace one loop by a While node; False if a loop inside it is not replaced yet."""
    variables = [f"variable.{i}" for i in range(len(frame.merges))]
    outside = {enter: f"outside.{i}" for i, enter in enumerate(frame.invariants)}
    of_merge = {merge.name: i for i, merge in enumerate(frame.merges)}

    def in_condition(ref: Ref) -> str | None:
        if ref[0] in of_merge:
            return variables[of_merge[ref[0]]]
        return outside.get(ref[0])

    def in_body(ref: Ref) -> str | None:
        if ref[0] in frame.switches:
            return variables[frame.switches[ref[0]]]
        return in_condition(ref)

    condition, _ = _collect(nodes, [frame.condition], in_condition, f"{frame.name}/cond")
    body, _ = _collect(nodes, frame.nexts, in_body, f"{frame.name}/body")
    for part in (condition, body):
        if any(_kind(node) in ("Enter", "Exit", "NextIteration", "LoopCond") for node in part.nodes.values()):
            return False
        part.arguments = (*variables, *outside.values())
    body.results = (*body.results, *((name, 0) for name in outside.values()))
    name = f"{frame.name}/loop"
    while name in nodes:
        name += "'"
    for node in list(nodes.values()):
        if _kind(node) == "Exit" and node.inputs[0][0] in frame.switches:
            ref = (name, frame.switches[node.inputs[0][0]])
            nodes[node.name] = SourceNode(node.name, "Identity", (ref,), {})
    gone = {*of_merge, *frame.switches, *frame.invariants, frame.loop_condition}
    gone |= {ref[0] for merge in frame.merges for ref in merge.inputs}
    _remove_downstream(nodes, gone)
    bodies = {"cond": structurize(condition), "body": structurize(body)}
    inputs = (*frame.initial, *frame.invariants.values())
    nodes[name] = SourceNode(name, "While", inputs, {}, bodies)
    return True


# ---- conditionals -------------------------------------------------------------------------------------------------

_Outcome = tuple[Ref, int]
"""A predicate, and the port of the Switch nodes that a value exists under: 1 for true, or the number of a case."""


class _Conditionals:
    """Replaces the Merge nodes of a graph without loops, in the order of their dependence."""

    def __init__(self, nodes: dict[str, SourceNode]) -> None:
        self._nodes = nodes
        self._under: dict[Ref, frozenset[_Outcome]] = {}

    def run(self) -> None:
        for name in _topological(self._nodes):
            node = self._nodes[name]
            if _kind(node) == "Merge":
                self._replace(node)

    def _predicate(self, switch: SourceNode) -> Ref:
        ref = switch.inputs[1]
        node = self._nodes.get(ref[0])
        while node is not None and node.op in _SAME:
            ref = node.inputs[0]
            node = self._nodes.get(ref[0])
        return ref

    def _outcomes(self, ref: Ref) -> frozenset[_Outcome]:
        """Under which outcomes the value exists. Iterative: graphs are deep."""
        stack = [ref]
        while stack:
            top = stack[-1]
            node = self._nodes.get(top[0])
            if top in self._under or node is None:
                self._under.setdefault(top, frozenset())
                stack.pop()
                continue
            operands = [*node.inputs, *((name, 0) for name in node.controls)]
            missing = [r for r in operands if r not in self._under]
            if missing:
                stack.extend(missing)
                continue
            found = frozenset[_Outcome]().union(*(self._under[r] for r in operands))
            if _kind(node) in _SWITCHES:
                found |= {(self._predicate(node), top[1])}
            self._under[top] = found
            stack.pop()
        return self._under[ref]

    def _replace(self, merge: SourceNode) -> None:
        """A Merge becomes an If, or a Case where more than two values meet (``_SwitchN`` chooses by a number)."""
        sides = [self._outcomes(ref) for ref in merge.inputs]
        count = len(sides)
        every = set(range(count))
        choosing = [
            p for p, _ in sides[0] if {port for side in sides for q, port in side if q == p} >= every and count > 1
        ]
        if not choosing:
            raise ModelError(f"{merge.label} joins values that do not depend on one condition")
        # Of several, the innermost: the one that depends on most others.
        predicate = max(choosing, key=lambda p: len(self._outcomes(p)))
        after = frozenset[_Outcome]().union(*sides) - {(predicate, port) for port in every}
        self._under[merge.name, 0] = self._under[merge.name, 1] = after
        branches: dict[int, Body] = {}
        arguments: dict[str, Ref] = {}
        for ref, side in zip(merge.inputs, sides, strict=True):
            port = next(port for q, port in side if q == predicate)
            body, own = self._branch(ref, (predicate, port), f"{merge.name}/{port}")
            branches[port] = body
            arguments |= own
        if sorted(branches) != list(range(count)):
            raise ModelError(f"{merge.label} joins values of which two exist under the same condition")
        for body in branches.values():
            body.arguments = tuple(arguments)
        names = ("else_branch", "then_branch") if count == 2 else [f"branches.{i}" for i in range(count)]
        bodies = {name: branches[i] for i, name in enumerate(names)}
        inputs = (predicate, *(self._outside(ref) for ref in arguments.values()))
        self._nodes[merge.name] = SourceNode(merge.name, "If" if count == 2 else "Case", inputs, {}, bodies)

    def _outside(self, ref: Ref) -> Ref:
        """What a Switch hands on, for one at the border of the branch."""
        node = self._nodes.get(ref[0])
        return node.inputs[0] if node is not None and _kind(node) in _SWITCHES else ref

    def _branch(self, ref: Ref, outcome: _Outcome, name: str) -> tuple[Body, dict[str, Ref]]:
        def argument(inner: Ref) -> str | None:
            node = self._nodes.get(inner[0])
            if node is not None and _kind(node) in _SWITCHES and (self._predicate(node), inner[1]) == outcome:
                return f"in:{inner[0]}:{inner[1]}"
            if node is not None and outcome in self._outcomes(inner):
                return None
            if node is not None and node.op == "Const":
                return None
            return f"in:{inner[0]}:{inner[1]}"

        return _collect(self._nodes, [ref], argument, name)


def _topological(nodes: Mapping[str, SourceNode]) -> list[str]:
    """Names, operands (data and control) first."""
    done: dict[str, None] = {}
    open_names: set[str] = set()
    for root in nodes:
        stack: list[tuple[str, Iterable[str]]] = [(root, iter(_operands(nodes, root)))]
        if root in done:
            continue
        open_names.add(root)
        while stack:
            name, rest = stack[-1]
            following = next((n for n in rest if n not in done), None)
            if following is None:
                done[name] = None
                open_names.discard(name)
                stack.pop()
            elif following in open_names:
                raise ModelError(f"the model has a cycle through node '{following}'")
            else:
                open_names.add(following)
                stack.append((following, iter(_operands(nodes, following))))
    return list(done)


def _operands(nodes: Mapping[str, SourceNode], name: str) -> list[str]:
    node = nodes[name]
    return [n for n in (*(ref[0] for ref in node.inputs), *node.controls) if n in nodes]
