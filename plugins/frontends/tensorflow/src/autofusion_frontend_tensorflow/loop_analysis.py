"""What can be said of a loop before it is imported: how often it runs, and which lists it fills from front to back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.bodies import argument_index, producer, through
from autofusion_frontend_tensorflow.lists import Reserved
from autofusion_frontend_tensorflow.source import Body, Ref

_ADD = frozenset({"Add", "AddV2"})
_APPEND = "TensorListPushBack"
_SETS = {"TensorListSetItem": (0, 1, 2), "TensorArrayWriteV3": (3, 1, 2), "TensorArrayWriteV2": (3, 1, 2)}
"""Operator -> which operands are the list, the place, and the element."""
_MOST_TRIPS = 1 << 20
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Scanned:
    """The element that the body sets in a list in each iteration: at the place of the iteration's number or, if
    ``last``, always at the only place, so that the last iteration's stays.
    """

    item: Ref
    last: bool = False


def find_scans(condition: Body, body: Body, operands: Sequence[Value]) -> dict[int, Scanned]:
    """Arguments that are reserved lists which the loop only sets: from front to back, or all elements at place 0."""
    found = {}
    for index, value in enumerate(operands):
        if not isinstance(value, Reserved):
            continue
        node = producer(body, body.results[index])
        if node is None or _reads(condition, index) or _reads(body, index) != 1:
            continue
        if node.op == _APPEND and argument_index(body, node.inputs[0]) == index and _size(value) == 0:
            found[index] = Scanned(node.inputs[1])
        elif node.op in _SETS:
            at, place, item = (node.inputs[i] for i in _SETS[node.op])
            if argument_index(body, at) != index:
                continue
            progress = _progress(body, operands, place)
            if progress == (0, 1) or (progress == (0, 0) and _size(value) == 1):
                found[index] = Scanned(item, last=progress == (0, 0))
    return found


def find_item(body: Body, index: int) -> Ref | None:
    """What the body itself puts into the list that is argument ``index``."""
    for node in body.nodes.values():
        if node.op in _SETS or node.op == _APPEND:
            at, item = (node.inputs[i] for i in (_SETS[node.op][::2] if node.op in _SETS else (0, 1)))
            if argument_index(body, at) == index:
                return item
    return None


def _size(reserved: Reserved) -> int | None:
    const = reserved.size.const
    return None if const is None else int(const.reshape(()))


def _reads(body: Body, index: int) -> int:
    """How many operands of nodes, Identity aside, are argument ``index``."""
    name, count, seen = body.arguments[index], 0, [body.arguments[index]]
    while seen:
        name = seen.pop()
        for node in body.nodes.values():
            for ref in node.inputs:
                if ref == (name, 0):
                    if node.op == "Identity":
                        seen.append(node.name)
                    else:
                        count += 1
    return count


def live_variables(condition: Body | None, body: Body, read: Sequence[int]) -> frozenset[int]:
    """The arguments that the results in ``read``, or the condition, depend on, through any number of iterations."""
    live = set(read)
    if condition is not None:
        live |= arguments_of(condition, condition.results)
    while True:
        more = arguments_of(body, [body.results[i] for i in live]) - live
        if not more:
            return frozenset(live)
        live |= more


def arguments_of(body: Body, refs: Sequence[Ref]) -> set[int]:
    """The arguments that these values depend on."""
    places = {name: i for i, name in enumerate(body.arguments)}
    found, seen = set(), set()
    stack = [ref[0] for ref in refs]
    while stack:
        name = stack.pop()
        if name in places:
            found.add(places[name])
        elif name not in seen and name in body.nodes:
            seen.add(name)
            stack.extend(ref[0] for ref in body.nodes[name].inputs)
    return found


def _constant(body: Body, operands: Sequence[Value], ref: Ref) -> int | None:
    """The integer behind ``ref``: a constant of the body, or an argument that is one; whether it stays is not asked."""
    index = argument_index(body, ref)
    if index is not None:
        return _whole(operands[index].const)
    node = body.nodes.get(through(body, ref)[0])
    return _whole(node.attr("value")) if node is not None and node.op == "Const" else None


def _whole(data: np.ndarray | None) -> int | None:
    """A single integer as a number."""
    return None if data is None or data.size != 1 or data.dtype.kind not in "iu" else int(data.reshape(()))


def _invariant(body: Body, operands: Sequence[Value], ref: Ref) -> int | None:
    """``_constant`` of what is the same in all iterations."""
    index = argument_index(body, ref)
    if index is not None and argument_index(body, body.results[index]) != index:
        return None
    return _constant(body, operands, ref)


def _counts(body: Body, operands: Sequence[Value], index: int) -> tuple[int, int] | None:
    """``(start, step)`` of an argument that grows by a constant in each iteration."""
    node, start = producer(body, body.results[index]), _whole(operands[index].const)
    if node is None or node.op not in _ADD or start is None:
        return None
    for own, other in (node.inputs[:2], node.inputs[1::-1]):
        step = _invariant(body, operands, other)
        if argument_index(body, own) == index and step is not None:
            return start, step
    return None


def _progress(body: Body, operands: Sequence[Value], ref: Ref, depth: int = _DEEPEST) -> tuple[int, int] | None:
    """``(start, step)`` of an integer in the body: a counter, a constant, or a sum or difference of these."""
    constant, index = _invariant(body, operands, ref), argument_index(body, ref)
    if constant is not None or index is not None or not depth:
        return (constant, 0) if constant is not None else None if index is None else _counts(body, operands, index)
    node = producer(body, ref)
    if node is None or node.op not in (*_ADD, "Sub"):
        return None
    a, b = (_progress(body, operands, inner, depth - 1) for inner in node.inputs[:2])
    if a is None or b is None:
        return None
    sign = -1 if node.op == "Sub" else 1
    return a[0] + sign * b[0], a[1] + sign * b[1]


@dataclass(frozen=True, slots=True)
class Count:
    """A counter that begins at ``start`` and grows by ``step`` until it is ``bound``, a number or a variable."""

    start: int
    step: int
    bound: int | Value

    @property
    def trips(self) -> int | None:
        """The number, if it is known."""
        return max(-(-(self.bound - self.start) // self.step), 0) if isinstance(self.bound, int) else None


def counts_of(condition: Body, body: Body, operands: Sequence[Value]) -> list[Count]:
    """What stops the loop, if its condition only compares counters with what stays: whichever comes first.

    Empty if that cannot be said.
    """
    if len(condition.results) != 1:
        return []
    counts: list[Count] = []
    stack = [condition.results[0]]
    while stack:
        node = producer(condition, stack.pop())
        if node is None:
            return []
        if node.op == "LogicalAnd":
            stack.extend(node.inputs)
            continue
        count = _comparison(condition, body, operands, node.op, node.inputs)
        if count is None:
            return []
        counts.append(count)
    return counts


def trip_count(counts: Sequence[Count]) -> int | None:
    """How often the loop runs; None if that is not known while the graph is read."""
    trips = [count.trips for count in counts]
    known = [n for n in trips if n is not None]
    return min(known) if counts and len(known) == len(trips) and min(known) <= _MOST_TRIPS else None


def _comparison(condition: Body, body: Body, operands: Sequence[Value], op: str, inputs: Sequence[Ref]) -> Count | None:
    """``counter < bound``, or the like."""
    if op in ("Greater", "GreaterEqual"):
        op, inputs = {"Greater": "Less", "GreaterEqual": "LessEqual"}[op], inputs[::-1]
    if op not in ("Less", "LessEqual"):
        return None
    counter, index = argument_index(condition, inputs[0]), argument_index(condition, inputs[1])
    bound: int | Value | None = _constant(condition, operands, inputs[1])
    if index is not None and argument_index(body, body.results[index]) != index:
        return None  # the bound changes
    if bound is None and index is not None and op == "Less":
        bound = operands[index]
    counted = None if counter is None else _counts(body, operands, counter)
    if bound is None or counted is None or counted[1] <= 0:
        return None
    return Count(*counted, bound + 1 if isinstance(bound, int) and op == "LessEqual" else bound)
