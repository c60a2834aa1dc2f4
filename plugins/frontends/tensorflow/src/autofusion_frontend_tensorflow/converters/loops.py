"""While: a condition and a body become the IR's Loop.

What a body hands on unchanged is captured and not carried, so that the constants among it stay constants inside. A list
that is filled one element an iteration, front to back, is a scan result. Where the condition only counts, the number of
iterations is an operand, and sizes that depend on it are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Graph, Value
from autofusion.ir.operators.control import common_type
from autofusion.ir.types import TensorType, Type
from autofusion_frontend_tensorflow import lists
from autofusion_frontend_tensorflow.bodies import BodyBuilder, argument_index, check_arity, function_of, outer, through
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.lists import Reserved, filled
from autofusion_frontend_tensorflow.loop_analysis import Scanned, find_scans, live_variables, trip_count
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
    live: frozenset[int]

    @property
    def carried(self) -> list[int]:
        """Arguments that change from one iteration to the next, but for those that nothing depends on."""
        return [i for i in sorted(self.live) if i not in self.constant and i not in self.scans]


@converter("While", "StatelessWhile")
def while_(call: Call) -> list[Value | None]:
    """Operands and results: the loop's variables."""
    condition, body = function_of(call, "cond"), function_of(call, "body")
    operands = list(call.inputs)
    for function in (condition, body):
        check_arity(call, function, len(operands))
    if len(body.results) != len(operands):
        call.fail(f"function '{body.name}' has {len(body.results)} results, expected {len(operands)}")
    trips = trip_count(condition, body, operands)
    read = [i for i in range(len(operands)) if call.scope.wanted(call.source, i)]
    live = live_variables(condition if trips is None else None, body, read)
    constant = {i for i, ref in enumerate(body.results) if argument_index(body, ref) == i}
    scans = {i: scan for i, scan in find_scans(condition, body, operands).items() if i in live}
    operands = [
        v
        if i in scans or i not in live or not isinstance(v, Reserved)
        else filled(call, v, _element(call, body, operands, i))
        for i, v in enumerate(operands)
    ]
    return _emit(call, _Plan(condition, body, operands, frozenset(constant & live), scans, trips, live))


def _element(call: Call, body: Body, operands: Sequence[Value], index: int) -> Value | None:
    """A value like the elements of reserved list ``index``: a variable set to them too, or by the body aside."""
    item = lists.item_set(body, index)
    if item is None:
        return None
    for result, variable in zip(body.results, operands, strict=True):
        if through(body, result) == through(body, item) and not isinstance(variable, Reserved):
            return variable
    builder = BodyBuilder(call, "aside")
    stand_ins = []
    for i, value in enumerate(operands):
        if isinstance(value, Reserved) and i == index:
            stand_ins.append(builder.input(f"list.{i}", TensorType(value.element, None)))
        else:
            stand_ins.append(
                builder.graph.constant(value.const) if value.const is not None else builder.input(f"in.{i}", value.type)
            )
    wanted = Body(body.name, body.nodes, body.arguments, (item,))
    return builder.run(wanted, stand_ins, f"{call.name}/aside")[0]


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
    if plan.trips is None:
        start = _started(call, plan)
        limit = None
    else:
        start, limit = None, call.ints(plan.trips)
    node = call.node("Loop", [limit, start, *first, *captured], attrs, outputs=len(carried) + len(plan.scans))
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
    kept = [*plan.carried, *sorted(plan.scans)]
    wanted = tuple(plan.scans[i].item if i in plan.scans else plan.body.results[i] for i in kept)
    body = Body(plan.body.name, plan.body.nodes, plan.body.arguments, wanted)
    results = dict(zip(kept, builder.run(body, arguments, f"{call.name}/body"), strict=True))
    if plan.trips is None:
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
    for index, value in zip(sorted(plan.scans), made[len(carried) :], strict=True):
        found[index] = _whole(call, plan, plan.operands[index], value)
    return [found.get(i) for i in range(len(plan.operands))]


def _whole(call: Call, plan: _Plan, reserved: Value, made: Value) -> Value:
    """The list after the loop: what was set, then zeros up to its reserved size."""
    assert isinstance(reserved, Reserved)
    size = reserved.size.const
    if plan.trips is not None and isinstance(made.type, TensorType) and made.shape is not None:
        made.type = made.type.with_shape((plan.trips, *made.shape[1:]))
    if plan.trips is not None and size is not None and int(size.reshape(())) == plan.trips:
        return made
    rank = call.rank(made)
    missing = call.emit("Sub", call.vector(reserved.size), call.dim(made, 0))
    missing = call.emit("Max", missing, call.ints([0]))
    before = call.ints([0] * rank)
    after = call.ints([0] * (rank - 1))
    amounts = call.emit("Concat", before, missing, *([after] if rank > 1 else []), axis=0)
    return call.emit("Pad", made, amounts)
