"""Loops: a function graph that ends by calling itself becomes the body of a Loop.

MindSpore writes `while` as a header graph that calls the body or what comes after the loop; the body ends by calling
the header again. So do `for` and nested loops, and `break` calls what comes after from inside the body. All are read
alike: one iteration runs the header until it is called again, or until something is called from where there is no way
back to it. That is not run inside: its operands leave the loop with the number of the exit, and it is run after it.

What the loop carries is found by running the iteration until nothing more changes in it: operands that an iteration
hands on as they are, are captured, not carried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion.ir.types import TensorType, Type
from autofusion_frontend_mindspore.abstract import Closure, Jump, Storage, leaves, rebuilt, same_form, same_leaf
from autofusion_frontend_mindspore.branches import Branch, calls, select
from autofusion_frontend_mindspore.call import Call, default_dtype, describe, read
from autofusion_frontend_mindspore.interpreter import Interpreter
from autofusion_frontend_mindspore.literals import tensor_type

_GOES_ON = -1


@dataclass(slots=True)
class Exit:
    """One way out: a function graph, and where each of its operands (and of the state) comes from after the loop.

    A source is ``("kept", leaf)``: known outside; ``("carried", number)``: a carried leaf; ``("sent", type)``.
    """

    closure: Closure
    sources: list[tuple[str, Any]]

    @property
    def sent(self) -> list[Type]:
        """Types of what must leave the loop for this exit alone."""
        return [what for how, what in self.sources if how == "sent"]


class Changed(Exception):
    """Found something more that the loop must carry: the iteration has to be run again."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop.header)
        self.loop = loop


@dataclass(slots=True)
class Loop:
    """A loop while its iteration is run. Its leaves are those of the header's operands, then the state's."""

    header: str
    outside: Interpreter
    args: tuple[Any, ...]
    storages: list[Storage]
    current: list[Any]
    """The leaves at the beginning of an iteration."""
    carried: set[int] = field(default_factory=set)
    exits: dict[str, Exit] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.header

    def again(self, interpreter: Interpreter, args: tuple[Any, ...]) -> Jump:
        """The header is called again: ``args`` begin the next iteration."""
        if not same_form(args, self.args):
            raise ModelError(
                f"loop '{self.header}' is begun with {describe(self.args)} and goes on with {describe(args)}"
            )
        found = [*leaves(args), *(interpreter.state[s] for s in self.storages)]
        pairs = enumerate(zip(found, self.current, strict=True))
        changed = {n for n, (leaf, before) in pairs if n not in self.carried and not same_leaf(leaf, before)}
        if changed:
            self.carried |= changed
            raise Changed(self)
        state = [_number_or_tensor(read(found[i], interpreter.state), self.header) for i in sorted(self.carried)]
        return Jump(self, (_GOES_ON, *state, *self._undefined_sent(interpreter)))

    def leave(self, interpreter: Interpreter, closure: Closure) -> Jump:
        """The loop ends, and ``closure`` is what to call then."""
        found = [*leaves(closure.given), *(interpreter.state[s] for s in self.storages)]
        sources = [self._source(leaf, interpreter) for leaf in found]
        known = self.exits.get(closure.graph)
        if known is None:
            self.exits[closure.graph] = Exit(closure, sources)
            raise Changed(self)
        for position, (old, new) in enumerate(zip(known.sources, sources, strict=True)):
            if old[0] != "sent" and not (old[0] == new[0] and same_leaf(old[1], new[1])):
                leaf = read(found[position], interpreter.state)
                known.sources[position] = ("sent", _type_of(leaf, self.header))
                raise Changed(self)
        sent: list[Any] = []
        for exit_ in self.exits.values():
            if exit_ is known:
                needed = (f for f, (how, _) in zip(found, exit_.sources, strict=True) if how == "sent")
                sent.extend(_number_or_tensor(read(leaf, interpreter.state), self.header) for leaf in needed)
            else:
                sent.extend(undefined(interpreter, type_) for type_ in exit_.sent)
        number = list(self.exits).index(closure.graph)
        state = [self.current[i] for i in sorted(self.carried)]
        return Jump(self, (number, *state, *sent))

    def _undefined_sent(self, interpreter: Interpreter) -> list[Value]:
        return [undefined(interpreter, type_) for exit_ in self.exits.values() for type_ in exit_.sent]

    def _source(self, leaf: Any, interpreter: Interpreter) -> tuple[str, Any]:
        for number in self.carried:
            if leaf is self.current[number]:
                return "carried", number
        if isinstance(leaf, Storage) and leaf not in self.outside.state:
            leaf = interpreter.state[leaf]
        if isinstance(leaf, Value) and leaf.const is None and not self.outside.builder.knows(leaf):
            return "sent", leaf.type
        return "kept", leaf


def run_loop(interpreter: Interpreter, header: str, args: tuple[Any, ...], origin: str) -> Any:
    """Emit the loop that begins when ``header`` is called with ``args``; return the result of that call."""
    storages = list(interpreter.state)
    first = [*leaves(args), *(interpreter.state[s] for s in storages)]
    loop = Loop(header, interpreter, args, storages, list(first))
    types = _declared(interpreter, header, args) + [None] * len(storages)
    body, result = _to_fixed_point(loop, first, types, origin)
    if not loop.exits:
        raise ModelError(f"the loop of node '{origin}' ('{header}') never ends")
    final, number = _emit(loop, body, result, first, origin)
    return _after(loop, final, number, origin)


def _to_fixed_point(loop: Loop, first: list[Any], types: list[Type | None], origin: str) -> tuple[Interpreter, Jump]:
    """Run the iteration until a pass finds nothing new: every pass but the last finds something, so they end."""
    shared = loop.outside.shared
    origins = shared.origins.copy()
    while True:
        try:
            return _iteration(loop, first, types, origin)
        except Changed as found:
            if found.loop is not loop:
                raise
            shared.origins.restore(origins)


def _declared(interpreter: Interpreter, header: str, args: tuple[Any, ...]) -> list[Type | None]:
    """What the header declares about its operands, one type for each leaf."""
    types: list[Type | None] = []
    for info, arg in zip(interpreter.program.functions[header].input, args, strict=True):
        stated = tensor_type(info.tensor[0]) if len(info.tensor) == 1 else None
        types.extend([None if isinstance(arg, tuple) else stated] * len(leaves(arg)))
    return types


def _iteration(loop: Loop, first: list[Any], types: list[Type | None], origin: str) -> tuple[Interpreter, Jump]:
    outside = loop.outside
    body = outside.child(f"{origin}/body", (*outside.loops, loop))
    body.builder.input("iteration", TensorType(I64, ()))
    body.builder.input("going", TensorType(BOOL, ()))
    body.builder.input("exit", TensorType(I64, ()))
    for number in sorted(loop.carried):
        leaf = read(first[number], outside.state)
        type_ = types[number] or _type_of(leaf, loop.header)
        loop.current[number] = body.builder.input(f"carried.{number}", type_)
    for exit_ in loop.exits.values():
        for type_ in exit_.sent:
            body.builder.input("sent", type_)
    count = len(leaves(loop.args))
    body.state.update(zip(loop.storages, loop.current[count:], strict=True))
    begun = rebuilt(loop.args, loop.current[:count])
    result = body.execute(outside.program.functions[loop.header], begun, origin)
    if not isinstance(result, Jump):
        raise ModelError(
            f"graph '{loop.header}', called by node '{origin}', calls itself in a way that is not a loop; "
            "recursion in general cannot be read"
        )
    return body, result


def _emit(loop: Loop, body: Interpreter, result: Jump, first: list[Any], origin: str) -> tuple[list[Value], Value]:
    """Emit the Loop; return what it carries at its end, and the number of the exit."""
    outside = loop.outside
    name = outside.shared.origins.unique(origin)
    inner = Call(body.builder, body.state, "Loop", name, [], {}, None)
    number = inner.as_tensor(result.values[0])
    inputs = [v.type for v in body.builder.graph.inputs]
    body.builder.output(inner.emit("Equal", number, inner.const(_GOES_ON, I64)))
    body.builder.output(number)
    for leaf, type_ in zip(result.values[1:], inputs[3:], strict=False):
        dtype = type_.dtype if isinstance(type_, TensorType) else None
        body.builder.output(inner.cast(inner.as_tensor(leaf, dtype), dtype))
    body.builder.finish()
    outer = Call(outside.builder, outside.state, "Loop", name, [], {}, None)
    begun: list[Value] = []
    for position in sorted(loop.carried):
        type_ = inputs[3 + len(begun)]
        dtype = type_.dtype if isinstance(type_, TensorType) else None
        begun.append(outer.cast(outer.as_tensor(read(first[position], outside.state), dtype), dtype))
    begun.extend(loop._undefined_sent(outside))
    captured = [value for value, _ in body.builder.captures]
    operands = [None, outer.const(True, BOOL), outer.const(_GOES_ON, I64), *begun, *captured]
    attrs = {"body": body.builder.graph, "captures": len(captured)}
    node = outer.node("Loop", operands, attrs, outputs=1 + len(begun))
    return list(node.outputs[1:]), node.outputs[0]


def _after(loop: Loop, final: list[Value], number: Value, origin: str) -> Any:
    carried = dict(zip(sorted(loop.carried), final, strict=False))
    sent = iter(final[len(carried) :])
    closures: list[Closure] = []
    states: list[list[Any]] = []
    for exit_ in loop.exits.values():
        found = [
            what if how == "kept" else carried[what] if how == "carried" else next(sent) for how, what in exit_.sources
        ]
        count = len(leaves(exit_.closure.given))
        closures.append(Closure(exit_.closure.graph, rebuilt(exit_.closure.given, found[:count])))
        states.append(found[count:])
    followed = calls(loop.outside, closures, origin)
    branches = [_with_state(loop, state, branch) for state, branch in zip(states, followed, strict=True)]
    return _numbered(loop.outside, number, branches, 0, origin)


def _with_state(loop: Loop, state: list[Any], branch: Branch) -> Branch:
    def run(interpreter: Interpreter) -> Any:
        interpreter.state.update(zip(loop.storages, state, strict=True))
        return branch(interpreter)

    return run


def _numbered(interpreter: Interpreter, number: Value, branches: list[Branch], at: int, origin: str) -> Any:
    if at == len(branches) - 1:
        return branches[at](interpreter)
    tools = Call(interpreter.builder, interpreter.state, "Loop", origin, [], {}, None)
    chosen = tools.emit("Equal", number, tools.const(at, I64))
    rest: Branch = lambda inner: _numbered(inner, number, branches, at + 1, origin)  # noqa: E731
    return select(interpreter, chosen, branches[at], rest, origin)


def _number_or_tensor(leaf: Any, header: str) -> Any:
    if not isinstance(leaf, Value | bool | int | float):
        raise ModelError(f"loop '{header}' carries {describe(leaf)}, which is neither a tensor nor a number")
    return leaf


def _type_of(leaf: Any, header: str) -> Type | None:
    leaf = _number_or_tensor(leaf, header)
    return leaf.type if isinstance(leaf, Value) else TensorType(default_dtype(leaf), ())


def undefined(interpreter: Interpreter, type_: Type | None) -> Value:
    """A value of the type that nothing reads: its elements are undefined, and zeros here."""
    tools = Call(interpreter.builder, interpreter.state, "Loop", "undefined", [], {}, None)
    if not isinstance(type_, TensorType) or type_.shape is None:
        raise ModelError(f"a loop sends a value of type {type_} to what comes after it; its rank must be known")
    return tools.const(np.zeros([d if isinstance(d, int) else 1 for d in type_.shape], type_.dtype))
