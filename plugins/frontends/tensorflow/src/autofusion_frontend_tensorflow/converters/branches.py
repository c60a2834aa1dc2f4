"""If and Case: functions become the branches of the IR's If."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow import lists
from autofusion_frontend_tensorflow.bodies import BodyBuilder, argument_index, check_arity, function_of, outer
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.lists import Reserved
from autofusion_frontend_tensorflow.loop_analysis import arguments_of
from autofusion_frontend_tensorflow.registry import converter
from autofusion_frontend_tensorflow.source import Body

lists.AWARE.update({"Case", "If", "StatelessCase", "StatelessIf"})


@converter("If", "StatelessIf")
def if_(call: Call) -> list[Value]:
    """Operands: condition, then what either branch takes. A number counts as true if it is not zero."""
    condition, operands = call.operand(0), call.inputs[1:]
    then, other = function_of(call, "then_branch"), function_of(call, "else_branch")
    return _choice(call, _truth(call, condition), then, other, operands)


def _truth(call: Call, condition: Value) -> Value:
    if condition.shape is not None and condition.shape != ():
        if all(d == 1 for d in condition.shape):
            condition = call.reshape(condition, [])
        else:  # TensorFlow's rule: a tensor counts as true if it has elements
            return call.emit("Greater", call.emit("Size", condition), call.ints(0))
    return call.cast(condition, np.bool_)


def _choice(call: Call, condition: Value, then: Body, other: Body, operands: Sequence[Value]) -> list[Value]:
    for body in (then, other):
        check_arity(call, body, len(operands))
    if condition.const is not None:
        return call.scope.inlined(then if bool(condition.const.reshape(())) else other, operands, call.name)
    return _branched(call, (then, other), operands, lambda bodies, values: _if(call, condition, bodies, values))


def _if(call: Call, condition: Value, bodies: Sequence[Body], operands: Sequence[Value]) -> list[Value]:
    captured = outer(operands)
    graphs = {}
    for name, body in zip(("then_branch", "else_branch"), bodies, strict=True):
        builder = BodyBuilder(call, name)
        builder.capture(captured)
        results = builder.run(body, [builder.inside(v) for v in operands], f"{call.name}/{name}")
        graphs[name] = builder.finish(results)
    attrs = {**graphs, "captures": len(captured)}
    node = call.node("If", [condition, *captured], attrs, outputs=len(graphs["then_branch"].outputs))
    return list(node.outputs)


def _branched(
    call: Call,
    bodies: Sequence[Body],
    operands: Sequence[Value],
    emit: Callable[[Sequence[Body], Sequence[Value]], list[Value]],
) -> list[Value]:
    """The results of a choice between ``bodies``. ``emit`` makes it of those results that some body computes, and
    of what these depend on: an operand that all bodies hand on stays what it is, even a list without elements.
    """
    if len({len(body.results) for body in bodies}) != 1:
        counts = " and ".join(str(len(body.results)) for body in bodies)
        call.fail(f"its branches must have the same number of results, found {counts}")
    places = list(zip(*([argument_index(body, ref) for ref in body.results] for body in bodies), strict=True))
    unmoved = {i: p[0] for i, p in enumerate(places) if p[0] is not None and len(set(p)) == 1}
    kept = [i for i in range(len(places)) if i not in unmoved]
    parts = [Body(b.name, b.nodes, b.arguments, tuple(b.results[i] for i in kept)) for b in bodies]
    needed = set[int]().union(*(arguments_of(part, part.results) for part in parts))
    reserved = [i for i in sorted(needed) if isinstance(operands[i], Reserved)]
    given = lists.tensors(call, parts, operands, reserved)
    values = [given.get(i, v) if i in needed else call.const(0, np.int32) for i, v in enumerate(operands)]
    made = dict(zip(kept, emit(parts, values), strict=True)) if kept else {}
    return [operands[unmoved[i]] if i in unmoved else made[i] for i in range(len(places))]


@converter("Case", "StatelessCase")
def case(call: Call) -> list[Value]:
    """Operands: which branch, then what they take. An index out of range takes the last."""
    index, operands = call.operand(0), call.inputs[1:]
    library, found = call.scope.model.library, call.source.bodies
    branches = [found[f"branches.{i}"] for i in range(len(found))] or [
        library.body(f.name, call.label) for f in call.attr("branches", [])
    ]
    if not branches:
        call.fail("it has no branches")
    for body in branches:
        check_arity(call, body, len(operands))
    if index.const is not None:
        at = int(index.const.reshape(()))
        return call.scope.inlined(branches[at if 0 <= at < len(branches) else -1], operands, call.name)
    return _branched(
        call,
        branches,
        operands,
        lambda bodies, values: _nested(call, bodies, 0, index, values, outer([index, *values])),
    )


def _nested(
    call: Call, branches: Sequence[Body], at: int, index: Value, operands: Sequence[Value], captured: Sequence[Value]
) -> list[Value]:
    """Branch ``at`` or those after it, as one If for each."""
    if at == len(branches) - 1:
        return call.scope.inlined(branches[at], operands, f"{call.name}/{at}")
    condition = call.emit("Equal", index, call.const(at, call.dtype(index)))
    graphs = {}
    for name in ("then_branch", "else_branch"):
        builder = BodyBuilder(call, f"{name}.{at}")
        builder.capture(captured)
        arguments = [builder.inside(v) for v in operands]
        if name == "then_branch":
            results = builder.run(branches[at], arguments, f"{call.name}/{at}")
        else:
            inner = call.within(builder.graph)
            results = _nested(
                inner, branches, at + 1, builder.inside(index), arguments, outer([builder.inside(index), *arguments])
            )
        graphs[name] = builder.finish(results)
    node = call.node(
        "If", [condition, *captured], {**graphs, "captures": len(captured)}, outputs=len(graphs["then_branch"].outputs)
    )
    return list(node.outputs)
