"""What the operator families share: the function type, wide arithmetic, axes, and attribute access.

An operator is a plain function ``(node, inputs) -> results``. Absent operands are None. Functions may return views of
their inputs and results in any memory order: ``evaluate`` copies where that is needed, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import Node

Inputs = Sequence[Any]
OpFunction = Callable[[Node, Inputs], Sequence[Any]]


def optional(inputs: Inputs, index: int) -> Any:
    """Operand ``index``, or None if it is absent or past the end."""
    return inputs[index] if index < len(inputs) else None


def wanted(node: Node, index: int) -> bool:
    """True if the node has a result ``index``."""
    return index < len(node.outputs)


def is_float(dtype: np.dtype) -> bool:
    """True for every real floating type, those of ml_dtypes included."""
    return dtype.name.startswith(("float", "bfloat"))


def is_integer(dtype: np.dtype) -> bool:
    """True for every integer type, the 2- and 4-bit ones of ml_dtypes included; False for bool."""
    return dtype.name.startswith(("int", "uint"))


def wide(x: np.ndarray) -> np.ndarray:
    """``x`` in float64 if it is of a narrower floating type: sums and functions round once, at the end.

    Sub-byte integers become int64, since NumPy's routines do not know them. Anything else is returned as it is.
    """
    if is_float(x.dtype):
        return x.astype(np.float64) if x.dtype != np.float64 else x
    if x.dtype.kind == "V":
        return x.astype(np.int64)
    return x


def lowest(dtype: np.dtype) -> Any:
    """The value that every other one of ``dtype`` is at least as large as (minus infinity for floating types)."""
    if is_float(dtype):
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def highest(dtype: np.dtype) -> Any:
    """The value that no other one of ``dtype`` exceeds."""
    if is_float(dtype):
        return np.inf
    return True if dtype.kind == "b" else np.iinfo(dtype).max


def integers(array: Any) -> list[int]:
    """The elements of a one-dimensional (or scalar) integer operand as Python integers."""
    return [int(v) for v in np.asarray(array).ravel()]


def normal_axis(axis: int, rank: int) -> int:
    """``axis`` counted from the front; raise ValueError if the tensor has no such axis."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def normal_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """``axes`` counted from the front, in the order given; all axes if None."""
    if axes is None:
        return tuple(range(rank))
    return tuple(normal_axis(int(a), rank) for a in axes)
