"""Arithmetic on Python numbers: computed here where they are known, in the graph where they are sizes of a run."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from autofusion.ir.dtypes import BOOL, F32
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.converters.arithmetic import common_dtype, floor_divided
from autofusion_frontend_mindspore.converters.indexing import places
from autofusion_frontend_mindspore.registry import converter

_ARITHMETIC: dict[str, tuple[Callable[..., Any], str]] = {
    "ScalarAdd": (operator.add, "Add"),
    "ScalarSub": (operator.sub, "Sub"),
    "ScalarMul": (operator.mul, "Mul"),
    "ScalarMod": (operator.mod, "Mod"),
    "ScalarPow": (operator.pow, "Pow"),
    "ScalarMax": (max, "Max"),
    "ScalarMin": (min, "Min"),
}
_COMPARISON: dict[str, tuple[Callable[..., Any], str]] = {
    "ScalarEq": (operator.eq, "Equal"),
    "ScalarGt": (operator.gt, "Greater"),
    "ScalarGe": (operator.ge, "GreaterOrEqual"),
    "ScalarLt": (operator.lt, "Less"),
    "ScalarLe": (operator.le, "LessOrEqual"),
}


def _known(call: Call) -> list[Any] | None:
    values = [
        v.const.item() if isinstance(v, Value) and v.const is not None and v.const.size == 1 else v for v in call.args
    ]
    return None if any(isinstance(v, Value) for v in values) else values


def _operands(call: Call) -> tuple[Value, Value]:
    dtype = common_dtype(call, (call.args[0], call.args[1]))
    return call.cast(call.tensor(0, dtype), dtype), call.cast(call.tensor(1, dtype), dtype)


def _register(name: str, function: Callable[..., Any], op: str) -> None:
    def convert(call: Call) -> Any:
        known = _known(call)
        if known is not None:
            return function(*known)
        left, right = _operands(call)
        if op == "Mod" and left.dtype is not None and left.dtype.kind not in "iu":
            return call.emit("Sub", left, call.emit("Mul", floor_divided(call, left, right), right))
        return call.emit(op, left, right)

    older = f"scalar_{name[6:].lower()}"  # MindSpore 2.0 spells comparisons so
    converter(*((name, older) if name in _COMPARISON else (name,)))(convert)


for _name, (_function, _op) in (_ARITHMETIC | _COMPARISON).items():
    _register(_name, _function, _op)


@converter("ScalarNe", "scalar_ne")
def not_equal(call: Call) -> Any:
    """Whether two numbers differ."""
    known = _known(call)
    return known[0] != known[1] if known is not None else call.emit("Not", call.emit("Equal", *_operands(call)))


@converter("ScalarDiv")
def divide(call: Call) -> Any:
    """The true quotient."""
    known = _known(call)
    if known is not None:
        return known[0] / known[1]
    return call.emit("Div", call.cast(call.tensor(0), F32), call.cast(call.tensor(1), F32))


@converter("ScalarFloorDiv")
def floor_divide(call: Call) -> Any:
    """The quotient rounded down."""
    known = _known(call)
    return known[0] // known[1] if known is not None else floor_divided(call, *_operands(call))


@converter("ScalarUsub", "ScalarUadd")
def sign(call: Call) -> Any:
    """The number with a sign."""
    negative = "sub" in call.op
    known = _known(call)
    if known is not None:
        return -known[0] if negative else known[0]
    return call.emit("Neg", call.tensor(0)) if negative else call.tensor(0)


@converter("ScalarLog")
def log(call: Call) -> Any:
    """The natural logarithm."""
    known = _known(call)
    return math.log(known[0]) if known is not None else call.emit("Log", call.cast(call.tensor(0), F32))


@converter("ScalarCast", "ScalarBool")
def cast(call: Call) -> Any:
    """Another kind of number."""
    dtype = BOOL if call.op == "ScalarBool" else call.result_dtype() or call.type_id(call.argument(1, "dtype"))
    known = _known(Call(call.builder, call.state, call.op, call.name, call.args[:1], {}, None))
    if known is None:
        return call.cast(call.tensor(0), dtype)
    kind = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(dtype).kind if np.dtype(dtype).kind in "biuf" else "f"]
    return kind(known[0])


@converter("BoolNot", "bool_not")
def negate(call: Call) -> Any:
    """Not."""
    known = _known(call)
    return not known[0] if known is not None else call.emit("Not", call.cast(call.tensor(0), BOOL))


@converter("BoolAnd", "bool_and", "BoolOr", "bool_or", "BoolEq", "bool_eq")
def combine(call: Call) -> Any:
    """And, or, the same."""
    which = call.op.lower().removeprefix("bool").removeprefix("_")
    known = _known(call)
    if known is not None:
        left, right = map(bool, known)
        return {"and": left and right, "or": left or right, "eq": left == right}[which]
    op = {"and": "And", "or": "Or", "eq": "Equal"}[which]
    return call.emit(op, call.cast(call.tensor(0), BOOL), call.cast(call.tensor(1), BOOL))


@converter("sequence_len")
def length(call: Call) -> Any:
    """The length of a tuple."""
    if not isinstance(call.args[0], tuple):
        call.fail("expected a tuple")
    return len(call.args[0])


@converter("RealTupleGetItem")
def get_item(call: Call) -> Any:
    """An element of a tuple of numbers, by a number that may be computed."""
    items, index = call.args[0], call.args[1]
    if isinstance(items, tuple) and isinstance(index, int):
        return items[index]
    return call.emit("Gather", call.as_tensor(items), places(call, call.as_tensor(index)), axis=0)


@converter("SequenceSlice")
def slice_(call: Call) -> Any:
    """(tuple, start, stop, step)."""
    items = call.args[0]
    if not isinstance(items, tuple):
        call.fail("expected a tuple")
    start, stop, step = (call.argument(i, n) for i, n in ((1, "start"), (2, "stop"), (3, "step")))
    return items[start:stop:step]


@converter("RealMakeTuple")
def make_tuple(call: Call) -> tuple[Any, ...]:
    """A tuple of the operands."""
    return tuple(call.args)


@converter("SequenceAdd")
def join(call: Call) -> Any:
    """Two tuples joined."""
    return (*call.args[0], *call.args[1])


@converter("SequenceMul")
def repeat(call: Call) -> Any:
    """A tuple repeated."""
    return call.args[0] * int(call.argument(1, "times"))


@converter("InSequence")
def contains(call: Call) -> Any:
    """Whether a number is among those of a tuple."""
    item, items = call.args[0], call.args[1]
    if isinstance(item, Value) or any(isinstance(v, Value) for v in items):
        call.fail("it asks for a number that is computed")
    return item in items


@converter("is_", "is_not")
def same(call: Call) -> bool:
    """Whether two values are the same: asked of None and of numbers."""
    left, right = call.args[0], call.args[1]
    found = left is right or (not isinstance(left, Value) and not isinstance(right, Value) and left == right)
    return found != (call.op == "is_not")
