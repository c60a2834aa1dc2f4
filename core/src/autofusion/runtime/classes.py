"""Classes of input sizes, each with one representative that stands for all of it when decisions are made.

What is decided for a shape must not depend on which shapes came before, or a run could not be repeated to the last
bit. So decisions are not made for the first shape of a class but for its representative, which follows from the shape.
"""

from __future__ import annotations

from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType, Type

DIGITS = 3
"""Binary digits that a representative keeps of a size: sizes of a class differ by less than a quarter. Sizes of few
digits (8, 48, 224, 320, 640) stand for themselves, and whoever needs multiples of 32 gets them."""
NEAR = 4
"""Sizes that differ by at most this are kept apart by the same distance: a mask that is one longer than a cache."""

Key = tuple[Type | None, ...]


def representative(graph: Graph, key: Key) -> Key:
    """The input types that stand for ``key``: dims that ``graph`` leaves open are rounded, the same everywhere."""
    open_dims = [_open(value.type, given) for value, given in zip(graph.inputs, key, strict=True)]
    sizes = sorted({size for dims in open_dims for size in dims.values()})
    rounded: dict[int, int] = {}
    for before, size in zip([None, *sizes], sizes, strict=False):
        near = before is not None and before >> DIGITS and size - before <= NEAR
        rounded[size] = rounded[before] + size - before if near and before is not None else round_size(size)
    return tuple(
        given.with_shape(tuple([rounded[d] if i in dims and isinstance(d, int) else d for i, d in enumerate(shape)]))
        if dims and isinstance(given, TensorType) and (shape := given.shape) is not None
        else given
        for given, dims in zip(key, open_dims, strict=True)
    )


def _open(declared: Type | None, given: Type | None) -> dict[int, int]:
    """Axis -> size of the dims that the declared type leaves open."""
    if not isinstance(given, TensorType) or given.shape is None:
        return {}
    shape = declared.shape if isinstance(declared, TensorType) else None
    return {
        axis: size
        for axis, size in enumerate(given.shape)
        if isinstance(size, int) and (shape is None or not isinstance(shape[axis], int))
    }


def round_size(size: int) -> int:
    """The nearest number of at most ``DIGITS`` binary digits and zeros behind them; of two, the larger."""
    unit = 1 << max(size.bit_length() - DIGITS, 0)
    return (size + unit // 2) // unit * unit
