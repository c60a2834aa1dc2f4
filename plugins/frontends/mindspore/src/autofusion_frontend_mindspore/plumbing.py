"""Primitives that move values about without touching tensors: tuples, monads, closures and reads of storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autofusion.frontends import ModelError
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.abstract import TOKEN, Choice, Closure, Storage
from autofusion_frontend_mindspore.call import describe

if TYPE_CHECKING:
    from autofusion_frontend_mindspore.interpreter import Interpreter

Plumb = Callable[["Interpreter", Sequence[Any], Mapping[str, Any], str], Any]


def _first(_: Interpreter, args: Sequence[Any], attrs: Mapping[str, Any], name: str) -> Any:
    return args[0]


def _load(interpreter: Interpreter, args: Sequence[Any], attrs: Mapping[str, Any], name: str) -> Any:
    return interpreter.state[args[0]] if isinstance(args[0], Storage) else args[0]


def _token(_: Interpreter, args: Sequence[Any], attrs: Mapping[str, Any], name: str) -> Any:
    return TOKEN


def _tuple(_: Interpreter, args: Sequence[Any], attrs: Mapping[str, Any], name: str) -> Any:
    return tuple(args)


def _item(_: Interpreter, args: Sequence[Any], attrs: Mapping[str, Any], name: str) -> Any:
    items, index = args[0], args[1]
    if isinstance(index, Value) and index.const is not None:
        index = int(index.const)
    if not isinstance(items, tuple) or not isinstance(index, int):
        raise ModelError(f"node '{name}' takes element {describe(index)} of {describe(items)}: both must be known")
    if not -len(items) <= index < len(items):
        raise ModelError(f"node '{name}' takes element {index} of a tuple of {len(items)}")
    return items[index]


def _partial(_: Interpreter, args: Sequence[Any], attrs: Mapping[str, Any], name: str) -> Any:
    callee = args[0]
    if not isinstance(callee, Closure):
        raise ModelError(f"node '{name}' gives operands to {describe(callee)}, which is not a function graph")
    return Closure(callee.graph, (*callee.given, *args[1:]))


def _switch(interpreter: Interpreter, args: Sequence[Any], attrs: Mapping[str, Any], name: str) -> Any:
    condition = args[0]
    if isinstance(condition, Storage):
        condition = interpreter.state[condition]
    if isinstance(condition, Value) and condition.const is not None:
        condition = bool(condition.const)
    if isinstance(condition, bool | int | float):
        return args[1] if condition else args[2]
    choice = Choice(condition, (args[1], args[2]))
    if all(isinstance(option, Closure | Choice) for option in choice.options):
        return choice
    from autofusion_frontend_mindspore.branches import choose_value

    return choose_value(interpreter, choice, name)


def _switch_layer(interpreter: Interpreter, args: Sequence[Any], attrs: Mapping[str, Any], name: str) -> Any:
    from autofusion_frontend_mindspore.branches import numbered

    index, options = args[0], args[1] if isinstance(args[1], tuple) else tuple(args[1:])
    if isinstance(index, Storage):
        index = interpreter.state[index]
    if isinstance(index, Value) and index.const is not None:
        index = int(index.const)
    if isinstance(index, int):
        return _item(interpreter, [options, index], attrs, name)
    return numbered(interpreter, index, options, name)


PLUMBING: dict[str, Plumb] = {
    "Load": _load,
    "Depend": _first,
    "Return": _first,
    "return": _first,
    "StopGradient": _first,
    "stop_gradient": _first,
    "identity": _first,
    "UpdateState": _token,
    "Print": _token,
    "TensorDump": _token,
    "MakeTuple": _tuple,
    "make_tuple": _tuple,
    "MakeList": _tuple,
    "make_list": _tuple,
    "TupleGetItem": _item,
    "tuple_getitem": _item,
    "ListGetItem": _item,
    "list_getitem": _item,
    "Partial": _partial,
    "partial": _partial,
    "Switch": _switch,
    "switch": _switch,
    "switch_layer": _switch_layer,
    "SwitchLayer": _switch_layer,
}
