"""What can be said of a loop before it is imported: how often it runs, and which lists it fills from front to back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.bodies import argument_index, producer, through
from autofusion_frontend_tensorflow.lists import Reserved
from autofusion_frontend_tensorflow.source import Body, Ref

_ADD = frozenset({"Add", "AddV2"})
_SETS = {"TensorListSetItem": (0, 1, 2), "TensorArrayWriteV3": (3, 1, 2), "TensorArrayWriteV2": (3, 1, 2)}
"""Operator -> which operands are the list, the place, and the element."""
_MOST_TRIPS = 1 << 20


@dataclass(frozen=True, slots=True)
class Scanned:
    """The element that the body sets in a list, in each iteration at the place of the iteration's number."""

    item: Ref


def find_scans(condition: Body, body: Body, operands: Sequence[Value]) -> dict[int, Scanned]:
    """Arguments that are reserved lists which the loop fills from front to back, and reads for nothing else."""
    found = {}
    for index, value in enumerate(operands):
        if not isinstance(value, Reserved):
            continue
        node = producer(body, body.results[index])
        if node is None or node.op not in _SETS or _reads(condition, index) or _reads(body, index) != 1:
            continue
        at, place, item = (node.inputs[i] for i in _SETS[node.op])
        counter = argument_index(body, place)
        if argument_index(body, at) == index and counter is not None and _counts(body, operands, counter) == (0, 1):
            found[index] = Scanned(item)
    return found


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
        live |= _arguments_of(condition, condition.results)
    while True:
        more = _arguments_of(body, [body.results[i] for i in live]) - live
        if not more:
            return frozenset(live)
        live |= more


def _arguments_of(body: Body, refs: Sequence[Ref]) -> set[int]:
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
    """The integer behind ``ref``: a constant of the body, or an argument that is one and stays so."""
    index = argument_index(body, ref)
    if index is not None:
        const = operands[index].const
        return int(const.reshape(())) if const is not None and const.size == 1 and const.dtype.kind in "iu" else None
    node = body.nodes.get(through(body, ref)[0])
    if node is None or node.op != "Const":
        return None
    data = node.attr("value")
    return int(data.reshape(())) if data is not None and data.size == 1 and data.dtype.kind in "iu" else None


def _counts(body: Body, operands: Sequence[Value], index: int) -> tuple[int, int] | None:
    """``(start, step)`` of an argument that grows by a constant in each iteration."""
    node = producer(body, body.results[index])
    start = operands[index].const
    if node is None or node.op not in _ADD or start is None or start.size != 1 or start.dtype.kind not in "iu":
        return None
    for own, other in (node.inputs[:2], node.inputs[1::-1]):
        step = _constant(body, operands, other) if argument_index(body, other) is None else None
        if argument_index(body, own) == index and step is not None:
            return int(start.reshape(())), step
    return None


def trip_count(condition: Body, body: Body, operands: Sequence[Value]) -> int | None:
    """How often the loop runs, if its condition only compares counters with constants; None if that is not known."""
    if len(condition.results) != 1:
        return None
    counts: list[int] = []
    stack = [condition.results[0]]
    while stack:
        node = producer(condition, stack.pop())
        if node is None:
            return None
        if node.op == "LogicalAnd":
            stack.extend(node.inputs)
            continue
        trips = _comparison(condition, body, operands, node.op, node.inputs)
        if trips is None:
            return None
        counts.append(trips)
    fewest = min(counts, default=None)
    return fewest if fewest is None or fewest <= _MOST_TRIPS else None


def _comparison(condition: Body, body: Body, operands: Sequence[Value], op: str, inputs: Sequence[Ref]) -> int | None:
    """Iterations until ``counter < bound`` is false."""
    if op in ("Greater", "GreaterEqual"):
        op, inputs = {"Greater": "Less", "GreaterEqual": "LessEqual"}[op], inputs[::-1]
    if op not in ("Less", "LessEqual"):
        return None
    counter, bound_index = argument_index(condition, inputs[0]), argument_index(condition, inputs[1])
    bound = _constant(condition, operands, inputs[1])
    if counter is None or bound is None:
        return None
    if bound_index is not None and argument_index(body, body.results[bound_index]) != bound_index:
        return None  # the bound changes
    counted = _counts(body, operands, counter)
    if counted is None or counted[1] <= 0:
        return None
    start, step = counted
    return max(-(-(bound + (op == "LessEqual") - start) // step), 0)
