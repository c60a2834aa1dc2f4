"""Order among many elements: which are the first ones, without sorting all of them."""

from __future__ import annotations

import numpy as np

_INDEX_BITS = 32
_LONG, _ROWS = 4096, 64
"""A few rows, each as long as that, are first cut down to those elements that may be among the first ones."""


def _ordered(x: np.ndarray) -> np.ndarray | None:
    """The elements as int64 below 2^31 in magnitude, in the same order; None if their type is too wide for that.

    NaN is the largest, and both zeros are equal, as in a sort of NumPy.
    """
    if (x.dtype.kind in "iub" and x.dtype.itemsize < 4) or x.dtype == np.int32:
        return x.astype(np.int64)
    if x.dtype.kind == "V" or x.dtype.name in ("float16", "bfloat16"):
        x = x.astype(np.float32)
    if x.dtype != np.float32:
        return None
    bits = (x + np.float32(0)).view(np.int32)  # the sum makes a negative zero positive
    bits = np.where(np.isnan(x), np.int32(0x7FFFFFFF), bits)
    return np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)


def _candidates(row: np.ndarray, count: int, largest: bool) -> np.ndarray:
    """Indices of all elements that may be among the ``count`` first: those no worse than the last of them."""
    last = row.size - count if largest else count - 1
    bound = np.partition(row, last)[last]
    return np.flatnonzero(~(row < bound) if largest else ~(row > bound))  # whatever is not a number stays in


def first_indices(x: np.ndarray, count: int, largest: bool) -> np.ndarray:
    """Indices of the ``count`` largest (or smallest) elements along the last axis, in order; the lower among equals.

    Value and index become one number, so that partial sorts, which know no stability, still put equals in order.
    """
    length = x.shape[-1]
    if 0 < count * 8 <= length and length >= _LONG and x.size <= _ROWS * length and x.dtype.kind in "fiu":
        rows = x.reshape(-1, length)
        found = np.empty((len(rows), count), np.int64)
        for row, out in zip(rows, found, strict=True):
            among = _candidates(row, count, largest)
            out[:] = among[_first(row[among], count, largest)]
        return found.reshape(*x.shape[:-1], count)
    return _first(x, count, largest)


def _first(x: np.ndarray, count: int, largest: bool) -> np.ndarray:
    ordered = _ordered(x) if x.shape[-1] < 1 << _INDEX_BITS else None
    if ordered is None:
        if not largest:
            return np.argsort(x, axis=-1, kind="stable")[..., :count]
        # A stable sort of the reversed elements, reversed: descending, with the lower index first among equals.
        flipped = np.flip(x, -1)
        return (x.shape[-1] - 1 - np.flip(np.argsort(flipped, axis=-1, kind="stable"), -1))[..., :count]
    keys = (-ordered if largest else ordered) << _INDEX_BITS
    keys += np.arange(x.shape[-1])
    if count < x.shape[-1]:
        if 0 < count:
            keys.partition(count - 1, axis=-1)
        keys = keys[..., :count]
    keys = np.sort(keys, axis=-1)
    return keys & ((1 << _INDEX_BITS) - 1)
