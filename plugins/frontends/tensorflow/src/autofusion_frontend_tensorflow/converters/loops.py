"""While: a condition and a body become the IR's Loop.

What a body hands on unchanged is captured and not carried, so that the constants among it stay constants inside. A list
that is filled one element an iteration, front to back, is a scan result; of one whose only element is set in each, that
element is carried. Where the condition only counts, the number of iterations is an operand, and sizes that depend on it
are known.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Graph, Value
from autofusion.ir.operators.control import common_type
from autofusion.ir.types import TensorType, Type
from autofusion_frontend_tensorflow import lists
from autofusion_frontend_tensorflow.bodies import BodyBuilder, argument_index, check_arity, function_of, outer, through
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.lists import Probe, Reserved
from autofusion_frontend_tensorflow.loop_analysis import (
    Count,
    Scanned,
    counts_of,
    find_item,
    find_scans,
    live_variables,
    trip_count,
)
from autofusion_frontend_tensorflow.registry import converter
from autofusion_frontend_tensorflow.source import Body

lists.AWARE.update({"While", "StatelessWhile"})
_MOST_PASSES = 8


@dataclass(frozen=True, slots=True)
class _Plan:
    """What becomes of each argument: handed on unchanged, made a scan result, or carried."""

    condition: Body
    body: Body
    operands: Sequence[Value]
    constant: frozenset[int]
    scans: dict[int, Scanned]
    trips: int | None
    limit: Value | None
    """The number of iterations, where only counting stops the loop; ``trips`` if it is known."""
    live: frozenset[int]
    alike: dict[int, int]
    """Lists whose one element is another variable after the loop."""

    @property
    def carried(self) -> list[int]:
        """Arguments that change from one iteration to the next, but for those that nothing depends on."""
        unmoved = {*self.constant, *self.stacked, *self.alike}
        return [i for i in sorted(self.live) if i not in unmoved]

    @property
    def stacked(self) -> list[int]:
        """The lists that are scan results. Of those whose last element stays, that element is carried."""
        return [i for i in sorted(self.scans) if not self.scans[i].last]


@converter("While", "StatelessWhile")
def while_(call: Call) -> list[Value | None]:
    """Operands and results: the loop's variables."""
    condition, body = function_of(call, "cond"), function_of(call, "body")
    operands = list(call.inputs)
    for function in (condition, body):
        check_arity(call, function, len(operands))
    if len(body.results) != len(operands):
        call.fail(f"function '{body.name}' has {len(body.results)} results, expected {len(operands)}")
    counts = counts_of(condition, body, operands)
    trips = trip_count(counts)
    read = [i for i in range(len(operands)) if call.scope.wanted(call.source, i)]
    live = live_variables(None if counts else condition, body, read)
    constant = {i for i, ref in enumerate(body.results) if argument_index(body, ref) == i}
    scans = {
        i: scan
        for i, scan in find_scans(condition, body, operands).items()
        if i in live and not isinstance(operands[i], Probe)
    }
    alike = _alike(body, operands, scans) if trips else {}
    unfilled = {*alike, *(i for i in scans if not scans[i].last)}
    tensors = _tensors(call, body, operands, [i for i in sorted(live - unfilled) if isinstance(operands[i], Reserved)])
    operands = [tensors.get(i, v) for i, v in enumerate(operands)]
    for i, scan in scans.items():
        if scan.last and i not in alike:
            operands[i] = call.squeeze(operands[i], 0)
    limit = _limit(call, counts, trips)
    return _emit(call, _Plan(condition, body, operands, frozenset(constant & live), scans, trips, limit, live, alike))


def _limit(call: Call, counts: Sequence[Count], trips: int | None) -> Value | None:
    """How often the loop runs, as an operand."""
    if trips is not None or not counts:
        return None if trips is None else call.ints(trips)
    made = []
    for count in counts:
        bound = call.ints(count.bound) if isinstance(count.bound, int) else call.as_ints(count.bound)
        more = call.emit("Sub", call.reshape(bound, []), call.ints(count.start - count.step + 1))
        made.append(call.emit("Max", call.emit("Div", more, call.ints(count.step)), call.ints(0)))
    return functools.reduce(lambda a, b: call.emit("Min", a, b), made)


def _alike(body: Body, operands: Sequence[Value], scans: Mapping[int, Scanned]) -> dict[int, int]:
    """Lists that keep the last iteration's element -> the variable that is the same value, where there is one."""
    values = {through(body, ref): i for i, ref in enumerate(body.results) if not isinstance(operands[i], Reserved)}
    items = {i: through(body, scan.item) for i, scan in scans.items() if scan.last}
    return {i: values[item] for i, item in items.items() if item in values}


def _tensors(call: Call, body: Body, operands: Sequence[Value], indices: Sequence[int]) -> dict[int, Value]:
    """The reserved lists ``indices`` as tensors. An element that is a variable of the loop too is like that."""
    like = {}
    for i in indices:
        item = find_item(body, i)
        for result, variable in zip(body.results, operands, strict=True):
            if item is not None and through(body, result) == through(body, item) and not isinstance(variable, Reserved):
                like[i] = variable
    return lists.tensors(call, [body], operands, indices, like)


def _emit(call: Call, plan: _Plan) -> list[Value | None]:
    carried = plan.carried
    captured = outer([plan.operands[i] for i in sorted(plan.constant)])
    types: list[Type | None] = [plan.operands[i].type for i in carried]
    for _ in range(_MOST_PASSES):
        graph = _body_graph(call, plan, captured, types)
        made = [v.type for v in graph.outputs[1 : 1 + len(carried)]]
        general = [common_type(a, b) for a, b in zip(types, made, strict=True)]
        if general == types:
            break
        types = general
    attrs = {"body": graph, "captures": len(captured)}
    first = [plan.operands[i] for i in carried]
    start = _started(call, plan) if plan.limit is None else None
    node = call.node("Loop", [plan.limit, start, *first, *captured], attrs, outputs=len(carried) + len(plan.stacked))
    return _results(call, plan, carried, node.outputs)


def _body_graph(call: Call, plan: _Plan, captured: Sequence[Value], types: Sequence[Type | None]) -> Graph:
    builder = BodyBuilder(call, "body")
    builder.input("iteration", TensorType(I64, ()))
    going = builder.input("going", TensorType(BOOL, ()))
    state = {i: builder.input(f"carried.{i}", t) for i, t in zip(plan.carried, types, strict=True)}
    builder.capture(captured)
    for i in plan.constant:
        state[i] = builder.inside(plan.operands[i])
    inner = call.within(builder.graph)
    arguments = [state.get(i) or _absent(inner, plan.operands[i]) for i in range(len(plan.operands))]
    kept = [*plan.carried, *plan.stacked]
    wanted = tuple(plan.scans[i].item if i in plan.scans else plan.body.results[i] for i in kept)
    body = Body(plan.body.name, plan.body.nodes, plan.body.arguments, wanted)
    results = dict(zip(kept, builder.run(body, arguments, f"{call.name}/body"), strict=True))
    if plan.limit is None:
        after = [results[i] if i in plan.carried else argument for i, argument in enumerate(arguments)]
        (more,) = builder.run(plan.condition, after, f"{call.name}/cond")
        more = inner.cast(more, BOOL)
    else:
        more = inner.emit("Identity", going)
    return builder.finish([more, *(results[i] for i in kept)])


def _absent(call: Call, value: Value) -> Value:
    """Stands for a variable that nothing inside reads: a list that only receives elements, or a dead one."""
    dtype = value.element if isinstance(value, Reserved) else value.dtype
    return Reserved(value.name, call.const(0, np.int32), np.dtype(dtype or np.float32), None)


def _started(call: Call, plan: _Plan) -> Value:
    """The condition before the first iteration."""
    arguments = [_absent(call, v) if isinstance(v, Reserved) else v for v in plan.operands]
    (start,) = call.scope.inlined(plan.condition, arguments, f"{call.name}/start")
    return call.cast(start, BOOL)


def _results(call: Call, plan: _Plan, carried: Sequence[int], made: Sequence[Value]) -> list[Value | None]:
    found: dict[int, Value] = {i: plan.operands[i] for i in plan.constant}
    found |= dict(zip(carried, made[: len(carried)], strict=True))
    for index, value in zip(plan.stacked, made[len(carried) :], strict=True):
        found[index] = _whole(call, plan, plan.operands[index], value)
    for index in plan.live & plan.scans.keys():
        if plan.scans[index].last:
            found[index] = call.unsqueeze(found[plan.alike.get(index, index)], 0)
    return [found.get(i) for i in range(len(plan.operands))]


def _whole(call: Call, plan: _Plan, reserved: Value, made: Value) -> Value:
    """The list after the loop: what was set, then zeros up to its reserved size."""
    assert isinstance(reserved, Reserved)
    size = reserved.size.const
    if plan.trips is not None and isinstance(made.type, TensorType) and made.shape is not None:
        made.type = made.type.with_shape((plan.trips, *made.shape[1:]))
    if size is not None and int(size.reshape(())) in (0, plan.trips):
        return made
    rank = call.rank(made)
    missing = call.emit("Sub", call.vector(reserved.size), call.dim(made, 0))
    missing = call.emit("Max", missing, call.ints([0]))
    before = call.ints([0] * rank)
    after = call.ints([0] * (rank - 1))
    amounts = call.emit("Concat", before, missing, *([after] if rank > 1 else []), axis=0)
    return call.emit("Pad", made, amounts)
