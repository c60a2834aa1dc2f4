"""What rules ask of values: is it a constant, along which axis does it broadcast, is this shape that one.

Every answer is conservative: what cannot be proved for all inputs is no. Rules of every pack need the same few
questions, and the traps (a vector as long as the channel count that runs along the width; a constant that the caller
may override; a scalar that raises the rank) are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.types import Dim, Shape

FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
"""Element types whose arithmetic rules may rearrange within rounding."""


def is_float(value: Value | None) -> bool:
    """True if the value is a tensor of a floating-point type that rules may compute with."""
    return value is not None and value.dtype is not None and is_float_type(value.dtype)


@cache
def is_float_type(dtype: np.dtype) -> bool:
    """True for a floating-point type that rules may compute with (asked often; NumPy makes names anew each time)."""
    return dtype.name in FLOATS


def is_parameter(value: Value) -> bool:
    """True for a constant, and for a stored default that the caller may override (which a rule must then refuse)."""
    return value.const is not None or value.default is not None


def not_constant(value: Value) -> str:
    """Why the value cannot be folded, for a refusal."""
    if value.default is not None:
        return f"'{value.name}' may be overridden by the caller"
    return f"'{value.name}' is computed at run time"


def constant_hint(value: Value) -> str:
    """What would make the value a constant, if that is in the user's hands."""
    if value.default is None:
        return ""
    return f"would apply if '{value.name}' were a stored constant only, not also an input of the model"


def private_hint(value: Value) -> str:
    """What would make the value one that only the region needs."""
    if value.is_output:
        return f"would apply if '{value.name}' were not an output of the model"
    return f"would apply if '{value.name}' had no other consumer"


def scalar(value: Value | None) -> float | None:
    """The number that a constant of one element, or of equal elements, holds; None for anything else."""
    if value is None or value.const is None or value.const.size == 0 or value.const.dtype.kind in "OSU":
        return None
    data = value.const
    first = data.flat[0]
    if data.size > 1 and not bool(np.all(data == first)):
        return None
    return float(first)


def ints(value: Value | None) -> list[int] | None:
    """The numbers of a constant integer scalar or vector; None for anything else."""
    if value is None or value.const is None or value.const.dtype.kind not in "iu":
        return None
    return [int(x) for x in value.const.reshape(-1)]


def same_dim(a: Dim, b: Dim) -> bool:
    """True if the two dims are equal for certain."""
    return a is not None and a == b


def same_shape(a: Shape | None, b: Shape | None) -> bool:
    """True if the two shapes are equal for certain, whatever the sizes behind their symbols."""
    return a is not None and b is not None and len(a) == len(b) and all(map(same_dim, a, b))


def fits_into(shape: Shape | None, result: Shape | None) -> bool:
    """True if a tensor of ``shape`` broadcasts to ``result`` without enlarging it, for certain."""
    if shape is None or result is None or len(shape) > len(result):
        return False
    tail = result[len(result) - len(shape) :]
    return all(d == 1 or same_dim(d, r) for d, r in zip(shape, tail, strict=True))


def along_axis(shape: Shape | None, rank: int, axis: int) -> bool:
    """True if a tensor of ``shape`` broadcast to ``rank`` axes varies along ``axis`` at most, and raises no rank."""
    if shape is None or len(shape) > rank:
        return False
    lead = rank - len(shape)
    return all(d == 1 or lead + i == axis for i, d in enumerate(shape))


def axis_vector(data: np.ndarray, rank: int, axis: int, size: int) -> np.ndarray | None:
    """``data`` as a vector of ``size`` elements along ``axis`` of a tensor with ``rank`` axes, in double precision.

    A single element is repeated. None if ``data`` varies along another axis, has another length, or would enlarge the
    tensor it broadcasts with.
    """
    if not along_axis(data.shape, rank, axis) or data.size not in (1, size):
        return None
    vector = data.reshape(-1).astype(np.float64)
    return np.repeat(vector, size) if vector.size != size else vector


def spread(vector: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """``vector`` laid along ``axis`` to broadcast with a tensor of ``rank`` axes: ``[C, 1, 1]`` for channels."""
    return vector.reshape((-1,) + (1,) * (rank - 1 - axis))


def normal_axis(axis: int, rank: int) -> int:
    """``axis`` counted from the front."""
    return axis + rank if axis < 0 else axis


def permuted(items: Sequence[Dim], perm: Sequence[int]) -> tuple[Dim, ...]:
    """``items`` in the order of a Transpose's ``perm``."""
    return tuple(items[p] for p in perm)


def arrow(*nodes: Node) -> str:
    """How a refusal names a site: ``Conv 'c3' -> BatchNormalization 'bn3'``; of many nodes, the first and the last."""
    labels = [node.label for node in nodes]
    return " -> ".join(labels if len(labels) <= 3 else [labels[0], "...", labels[-1]])
