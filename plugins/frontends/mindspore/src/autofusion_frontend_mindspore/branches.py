"""Choices of the run time: both branches are followed, and what they give differently becomes the results of an If."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.abstract import Choice, Closure, Jump, Storage, leaves, rebuilt, same_form, same_leaf
from autofusion_frontend_mindspore.builder import align
from autofusion_frontend_mindspore.call import Call, default_dtype, describe, read
from autofusion_frontend_mindspore.interpreter import Interpreter

Branch = Callable[[Interpreter], Any]
"""Gives a value, emitting into the graph of the interpreter that it gets."""


def call_choice(interpreter: Interpreter, choice: Choice, args: Sequence[Any], origin: str) -> Any:
    """Call whichever closure is chosen."""
    then, other = calls(interpreter, [_given(option, args) for option in choice.options], origin)
    return select(interpreter, choice.index, then, other, origin)


def _given(option: Any, args: Sequence[Any]) -> Any:
    if isinstance(option, Choice):
        return Choice(option.index, tuple(_given(each, args) for each in option.options))
    return Closure(option.graph, (*option.given, *args)) if isinstance(option, Closure) else option


def calls(interpreter: Interpreter, callees: Sequence[Any], origin: str) -> list[Branch]:
    """Branches that each call one of ``callees``.

    In a loop, if one of them comes back to its header, those that do not leave the loop.
    """
    loop = interpreter.loops[-1] if interpreter.loops else None
    stays = [loop is not None and _comes_back(interpreter, callee) for callee in callees]

    def branch(callee: Any, leaves_loop: bool) -> Branch:
        if not leaves_loop:
            return lambda inner: inner.call(callee, (), origin)
        if not isinstance(callee, Closure):
            raise ModelError(f"node '{origin}' leaves a loop to one of several functions, which cannot be read")
        assert loop is not None
        return lambda inner: loop.leave(inner, callee)

    return [branch(callee, any(stays) and not stay) for callee, stay in zip(callees, stays, strict=True)]


def _comes_back(interpreter: Interpreter, option: Any) -> bool:
    *outer, loop = interpreter.loops
    if isinstance(option, Choice):
        return any(_comes_back(interpreter, each) for each in option.options)
    if not isinstance(option, Closure):
        return False
    around = [each.header for each in outer]
    return option.graph == loop.header or interpreter.program.reaches(option.graph, loop.header, around)


def choose_value(interpreter: Interpreter, choice: Choice, origin: str) -> Any:
    """The chosen one of two values."""
    first, second = choice.options
    return select(interpreter, choice.index, lambda _: first, lambda _: second, origin)


def numbered(interpreter: Interpreter, index: Value, options: tuple[Any, ...], origin: str) -> Any:
    """A choice by number, which may count from the end: one of the first and the rest, and so on."""
    if not options:
        raise ModelError(f"node '{origin}' chooses among no functions")
    tools = Call(interpreter.builder, interpreter.state, "switch_layer", origin, [], {}, None)
    whole = tools.emit("Reshape", tools.cast(index, I64), tools.ints([]))
    behind = tools.emit("Add", whole, tools.const(len(options), I64))
    whole = tools.emit("Where", tools.emit("Less", whole, tools.const(0, I64)), behind, whole)
    result = options[-1]
    for number in reversed(range(len(options) - 1)):
        result = Choice(tools.emit("Equal", whole, tools.const(number, I64)), (options[number], result))
    return result


def select(interpreter: Interpreter, condition: Value, then: Branch, other: Branch, origin: str) -> Any:
    """Follow both branches, and return what they give: the same, or results of an If on ``condition``."""
    if condition.const is not None:
        return (then if bool(np.all(condition.const)) else other)(interpreter)
    children = [interpreter.child(f"{origin}/then"), interpreter.child(f"{origin}/else")]
    results = [branch(child) for branch, child in zip((then, other), children, strict=True)]
    jump = next((r for r in results if isinstance(r, Jump)), None)
    if jump is not None:
        if not all(isinstance(r, Jump) and r.loop is jump.loop for r in results):
            raise ModelError(
                f"node '{origin}' chooses between a call by which graph '{jump.loop}' calls itself and another result; "
                "only loops can be read, not recursion in general"
            )
        return Jump(jump.loop, _merged(interpreter, condition, children, [r.values for r in results], origin))
    changed = [s for s, v in interpreter.state.items() if any(child.state[s] is not v for child in children)]
    whole = [(r, tuple(child.state[s] for s in changed)) for r, child in zip(results, children, strict=True)]
    result, written = _merged(interpreter, condition, children, whole, origin)
    interpreter.state.update(zip(changed, written, strict=True))
    return result


def _merged(
    interpreter: Interpreter, condition: Value, children: list[Interpreter], results: list[Any], origin: str
) -> Any:
    if not same_form(*results):
        raise ModelError(f"the branches of node '{origin}' give {describe(results[0])} and {describe(results[1])}")
    merged: list[Any] = []
    made: list[int] = []
    for pair in zip(*map(leaves, results), strict=True):
        kept = _same(interpreter, pair)
        if kept is None:
            made.append(len(merged))
            _outputs(children, pair, origin)
        merged.append(pair[0] if kept is None else kept[0])
    if made:
        for child in children:
            child.builder.finish()
        bodies = [child.builder for child in children]
        captured = align(bodies)
        name = interpreter.shared.origins.unique(origin)
        tools = Call(interpreter.builder, interpreter.state, "If", name, [], {}, None)
        condition = tools.emit("Reshape", tools.cast(condition, BOOL), tools.ints([]))
        attrs = {"then_branch": bodies[0].graph, "else_branch": bodies[1].graph, "captures": len(captured)}
        node = tools.node("If", [condition, *captured], attrs, outputs=len(made))
        for position, value in zip(made, node.outputs, strict=True):
            merged[position] = value
    return rebuilt(results[0], merged)


def _same(interpreter: Interpreter, pair: Sequence[Any]) -> tuple[Any] | None:
    """The leaf that both branches give, if it is one and exists outside of them."""
    if not same_leaf(*pair):
        return None
    leaf = pair[0]
    if isinstance(leaf, Storage):
        return (leaf,) if leaf in interpreter.state else None
    if isinstance(leaf, Value) and not interpreter.builder.knows(leaf):
        return None
    return (leaf,)


def _outputs(children: list[Interpreter], pair: Sequence[Any], origin: str) -> None:
    """Make the leaf a result of both bodies, with one element type."""
    leaf = [read(leaf, child.state) for leaf, child in zip(pair, children, strict=True)]
    for each in leaf:
        if not isinstance(each, Value | bool | int | float):
            raise ModelError(f"the branches of node '{origin}' give {describe(leaf[0])} and {describe(leaf[1])}")
    dtypes = [each.dtype if isinstance(each, Value) else default_dtype(each) for each in leaf]
    tensors = [d for d, each in zip(dtypes, leaf, strict=True) if isinstance(each, Value)]
    dtype = tensors[0] if len(tensors) == 1 or len(set(tensors)) == 1 else np.result_type(*dtypes)
    for each, child in zip(leaf, children, strict=True):
        tools = Call(child.builder, child.state, "If", origin, [], {}, None)
        child.builder.output(tools.cast(tools.as_tensor(each, dtype), dtype))
