"""What a name of a MindIR may stand for: a tensor, a Python value, a tuple, a piece of storage, a closure, a token.

A MindIR is a functional program over such values, and only its tensors exist at run time: the importer runs the
program on abstract values, and what it does to tensors becomes the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.ir.graph import Value
from autofusion.ir.types import TensorType


class Token:
    """A monad: stands for "after these side effects". Its order is that of the nodes, so that it needs no content."""

    def __repr__(self) -> str:
        return "token"


TOKEN = Token()


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """A parameter, or a tensor that is modified in place: reading gives what was written last."""

    key: str
    """The parameter's name, or the model's name for the storage."""


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function graph with its first operands given."""

    graph: str
    given: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One of several values, by the number that ``index`` has at run time (for a condition: true is number 0)."""

    index: Value
    options: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Jump:
    """The result of a loop body's last call: ``values`` are what the loop carries, ready to be its next state."""

    loop: object
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ScalarType:
    """The declared type of a Python number."""

    dtype: np.dtype


Declared = TensorType | ScalarType | tuple[Any, ...] | None
"""What a node declares about its result: a tuple for a tuple, None where it says nothing usable."""


def leaves(value: Any) -> list[Any]:
    """The elements of nested tuples, from left to right; anything else is one leaf."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def rebuilt(pattern: Any, given: Sequence[Any]) -> Any:
    """``pattern`` with its leaves replaced, in order, by ``given``."""
    remaining = iter(given)

    def build(value: Any) -> Any:
        return tuple(build(item) for item in value) if isinstance(value, tuple) else next(remaining)

    return build(pattern)


def same_form(a: Any, b: Any) -> bool:
    """True if both are nested tuples of the same form."""
    if isinstance(a, tuple) != isinstance(b, tuple):
        return False
    return not isinstance(a, tuple) or (len(a) == len(b) and all(same_form(x, y) for x, y in zip(a, b, strict=True)))


def same_leaf(a: Any, b: Any) -> bool:
    """True if the two leaves are the same value at run time, as far as one can see."""
    if a is b:
        return True
    if isinstance(a, Value | Storage) or isinstance(b, Value | Storage):
        return False
    if isinstance(a, Closure) and isinstance(b, Closure):
        return a.graph == b.graph and len(a.given) == len(b.given) and all(map(same_leaf, a.given, b.given))
    if isinstance(a, float) and isinstance(b, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    return type(a) is type(b) and bool(a == b)
