"""If and Case: functions become the branches of the IR's If."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.bodies import BodyBuilder, check_arity, function_of, outer
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter
from autofusion_frontend_tensorflow.source import Body


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
    captured = outer(operands)
    graphs = {}
    for name, body in (("then_branch", then), ("else_branch", other)):
        builder = BodyBuilder(call, name)
        builder.capture(captured)
        results = builder.run(body, [builder.inside(v) for v in operands], f"{call.name}/{name}")
        graphs[name] = builder.finish(results)
    attrs = {**graphs, "captures": len(captured)}
    node = call.node("If", [condition, *captured], attrs, outputs=len(graphs["then_branch"].outputs))
    return list(node.outputs)


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
    captured = outer([index, *operands])
    return _nested(call, branches, 0, index, operands, captured)


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
