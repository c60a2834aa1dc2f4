"""What all moves share: the register, constants along axes, and numbers that are sometimes other ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from autofusion.ir.graph import Value
from tests.fuzz.fuzz_make import Make

Move = Callable[[Make], None]
MOVES: dict[str, list[Move]] = {"image": [], "any": [], "rows": [], "movement": [], "types": []}


def move(*kinds: str) -> Callable[[Move], Move]:
    def note(function: Move) -> Move:
        for kind in kinds:
            MOVES[kind].append(function)
        return function

    return note


def near(m: Make, number: float) -> float:
    """``number``, or sometimes another one."""
    if m.maybe(0.85):
        return number
    return m.choose(number * 1.003, number * 1.1, -number, 0.0, number + 1)


def along(m: Make, shape: tuple[int, ...], axis: int | None = None) -> np.ndarray:
    """A constant that broadcasts with ``shape``: along one axis (the channels, mostly), a number, or in full."""
    rank = len(shape)
    kind = m.choose("axis", "axis", "axis", "number", "full", "some", "enlarge")
    if kind == "number" or rank == 0:
        return m.array((1,) * m.int(0, rank + (1 if m.maybe(0.1) else 0)))
    if kind == "axis":
        axis = (min(1, rank - 1) if m.maybe(0.7) else m.int(0, rank - 1)) if axis is None else axis
        lead = m.int(0, axis) if m.maybe(0.5) else axis
        return m.array((*(1,) * lead, shape[axis], *(1,) * (rank - 1 - axis)))
    if kind == "some":
        dims = tuple(d if m.maybe(0.5) else 1 for d in shape)
        return m.array(dims[m.int(0, rank - 1) :])
    if kind == "enlarge" and m.maybe(0.4):
        dims = tuple(m.int(2, 3) if d == 1 and m.maybe(0.5) else 1 for d in shape)
        return m.array((m.int(1, 2), *dims) if m.maybe(0.5) else dims)
    return m.array(shape)


def scaled(data: np.ndarray) -> np.ndarray:
    """As weights: sums of products stay about one."""
    fan = max(1, math.prod(data.shape[1:]))
    return (data / math.sqrt(fan)).astype(data.dtype)


def number(m: Make, x: Value, data: float) -> Value:
    """A number as a constant, mostly a scalar."""
    shape = m.choose((), (), (), (1,), (1,) * len(m.shape(x)))
    return m.const(np.full(shape, data), m.dtype(x))


def all_moves() -> list[Move]:
    """Every move, once."""
    return list(dict.fromkeys(itertools.chain.from_iterable(MOVES.values())))
