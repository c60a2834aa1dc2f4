"""The register of the networks that the tests export. Only the builder imports this, in a process of its own.

MindSpore reads the sources of what it exports, and does not take annotations everywhere: those functions have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import nn

RNG = np.random.default_rng(7)
NETS: dict[str, Callable[[], tuple[Any, ...]]] = {}


def floats(*shape: int) -> np.ndarray:
    """Numbers around zero."""
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*shape: int, high: int = 9, low: int = -9, dtype: Any = np.int32) -> np.ndarray:
    """Integers from ``low`` up to, not with, ``high``."""
    return RNG.integers(low, high, shape).astype(dtype)


class Net(nn.Cell):
    """A function as a network."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def construct(self, *args):
        return self.function(*args)


def net(function: Any, *inputs: Any, expected: Any = None) -> None:
    """Register a function of tensors."""

    def make() -> tuple[Any, list[Any]]:
        cell = Net(function)
        if expected is not None:
            cell.expected = expected
        return cell, list(inputs)

    NETS[function.__name__] = make


def cell(name: str, make: Callable[[], Any], *inputs: Any, dynamic: Any = None) -> None:
    """Register a cell."""
    NETS[name] = lambda: (make(), list(inputs)) if dynamic is None else (make(), list(inputs), dynamic())


class Each(nn.Cell):
    """Every layer on the same operand."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self.layers = nn.CellList(list(layers))

    def construct(self, x):
        results = ()
        for layer in self.layers:
            results = (*results, layer(x))
        return results
