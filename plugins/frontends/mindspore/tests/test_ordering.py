"""Running extremes, ranks, counts and different values, those above all that MindSpore runs on no CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.errors import ModelError
from plugins.frontends.mindspore.tests.one_primitive import run

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(10)
I64, I32, F32 = np.int64, np.int32, np.float32
NAN = np.nan
X = F32([[1, 5, 3], [2, 5, 9], [2, 1, 9], [NAN, 0, 0], [7, 9, 1]])
D = RNG.integers(0, 5, (3, 7, 2)).astype(I32)
M = F32([[5, 1, 4, 2], [1, 1, 1, 3]])
GAPS = F32([[3, NAN, 1, 2], [3, 2, 1, 9], [NAN] * 4])
SORTED, VALUES = F32([[1, 3, 5], [2, 4, 4]]), F32([[3, 0], [4, 9]])
TURNED, ORDER = np.ascontiguousarray(SORTED[:, ::-1]), I64([[2, 1, 0]] * 2)
B, H, U = I32([1, 5, 1, 0]), F32([1, 2, 1, 0, 3, 3.1, -1]), I32([5, 2, 5, 1, 2])
RUNS = I32([5, 5, 2, 2, 1, 5])
SLICES = I32([[1, 2], [1, 2], [0, 2]])


def last_places(x: np.ndarray, axis: int) -> np.ndarray:
    """Where the least element so far is, of equal ones the last."""
    x = np.moveaxis(x, axis, -1)
    found = np.zeros(x.shape, I64)
    for at in np.ndindex(*x.shape):
        so_far = x[at[:-1]][: at[-1] + 1]
        found[at] = np.flatnonzero(so_far == so_far.min())[-1]
    return np.moveaxis(found, -1, axis)


CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    (
        "Cummax",
        (X, 0),
        {},
        (
            F32([[1, 5, 3], [2, 5, 9], [2, 5, 9], [NAN, 5, 9], [NAN, 9, 9]]),
            I64([[0, 0, 0], [1, 1, 1], [2, 1, 2], [3, 1, 2], [3, 4, 2]]),
        ),
    ),
    ("Cummax", (X[:, :1],), {"axis": 1}, (X[:, :1], np.zeros((5, 1), I64))),
    ("Cummin", (X[:3],), {"axis": 0}, (np.minimum.accumulate(X[:3]), last_places(X[:3], 0).astype(I32))),
    ("CumminExt", (D, 1), {}, (np.minimum.accumulate(D, 1), last_places(D, 1))),
    ("CumminExt", (D, -1), {}, (np.minimum.accumulate(D, 2), last_places(D, 2))),
    ("MedianExt", (M,), {}, F32(1)),
    ("MedianExt", (F32([1, NAN, 2]),), {}, F32(NAN)),
    ("MedianDim", (M, 1, False), {}, (F32([2, 1]), I64([3, 1]))),
    ("MedianDim", (F32([[3, NAN, 1], [3, 2, 1]]), -1, True), {}, (F32([[NAN], [2]]), I64([[1], [1]]))),
    (
        "Median",
        (GAPS,),
        {"global_median": False, "axis": 1, "keep_dims": False, "ignore_nan": True},
        (F32([2, 2, NAN]), I64([3, 1, 0])),
    ),
    (
        "Median",
        (GAPS,),
        {"global_median": True, "axis": 0, "keep_dims": False, "ignore_nan": False},
        (F32(NAN), I64(1)),
    ),
    (
        "Median",
        (I32([[3, 5, 1, 2]]),),
        {"global_median": False, "axis": 1, "keep_dims": True, "ignore_nan": True},
        (I32([[2]]), I64([[3]])),
    ),
    ("Kthvalue", (M, 2, 1, False), {}, (F32([2, 1]), I64([3, 1]))),
    ("SearchSorted", (SORTED, VALUES, None), {"right": False}, I64([[1, 0], [1, 3]])),
    ("SearchSorted", (SORTED, VALUES, None, 35, True), {}, I64([[2, 0], [3, 3]])),
    ("SearchSorted", (SORTED[0], VALUES, None, 34, False), {}, I32([[1, 0], [2, 3]])),
    ("SearchSorted", (TURNED, VALUES, ORDER, 35, False), {}, I64([[1, 0], [1, 3]])),
    ("Bincount", (B, I32(5), F32([1, 2, 3, 4])), {}, F32([4, 4, 0, 0, 0])),
    ("Bincount", (B, 5, F32([])), {}, F32([1, 2, 0, 0, 0])),
    ("BincountExt", (B, None, 0), {}, I64([1, 2, 0, 0, 0, 1])),
    ("BincountExt", (B, F32([1, 2, 3, 4]), 8), {}, F32([4, 4, 0, 0, 0, 2, 0, 0])),
    ("BincountExt", (B[:0], None, 3), {}, I64([0, 0, 0])),
    ("HistcExt", (H, 4, 0, 3), {}, F32([1, 2, 1, 1])),
    ("HistcExt", (H, 5, 0, 0), {}, np.histogram(H, 5)[0].astype(F32)),
    ("HistcExt", (F32([2, 2]), 4, 0, 0), {}, F32([0, 0, 2, 0])),
    ("HistcExt", (F32([2, 1, NAN]), 4, 2, 2), {}, F32([1, 0, 1, 0])),
    ("HistcExt", (I32([1, 2, 1]), 4, 0, 3), {}, I32([0, 2, 1, 0])),
    ("Unique", (U,), {}, (I32([5, 2, 1]), I32([0, 1, 0, 2, 1]))),
    (
        "Unique2",
        (U.reshape(5, 1), True, True, True),
        {},
        (I32([1, 2, 5]), I64([[2], [1], [2], [0], [1]]), I64([1, 2, 2])),
    ),
    ("InnerUnique", (U, True, True), {}, (I32([1, 2, 5]), I64([2, 1, 2, 0, 1]))),
    ("UniqueDim", (SLICES, True, True, 0), {}, (I32([[0, 2], [1, 2]]), I64([1, 1, 0]), I64([1, 2]))),
    ("UniqueWithPad", (U, 9), {}, (I32([5, 2, 1, 9, 9]), I32([0, 1, 0, 2, 1]))),
    (
        "UniqueConsecutive",
        (RUNS.reshape(2, 3),),
        {},
        (I32([5, 2, 1, 5]), I64([[0, 0, 1], [1, 2, 3]]), I64([2, 2, 1, 1])),
    ),
    ("UniqueConsecutive", (RUNS[:1],), {}, (RUNS[:1], I64([0]), I64([1]))),
    ("UniqueConsecutive", (RUNS[:0],), {}, (RUNS[:0], I64([]), I64([]))),
    ("NonZeroExt", (I32([[0, 1], [2, 0]]),), {}, (I64([0, 1]), I64([1, 0]))),
]


@pytest.mark.parametrize("level", ["off", "full"])
@pytest.mark.parametrize(
    ("primitive", "operands", "attrs", "expected"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_primitive(
    primitive: str, operands: tuple[Any, ...], attrs: dict[str, Any], expected: Any, level: str, tmp_path: Path
) -> None:
    given = run(tmp_path, primitive, operands, attrs, expected, level=level)
    for result, want in zip(given, expected if isinstance(expected, tuple) else (expected,), strict=True):
        want = np.asarray(want)
        assert (result.dtype, result.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(result, want)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="runs of equal slices along an axis are not supported"):
        run(tmp_path, "UniqueConsecutive", (SLICES, True, True, 0), {}, None)
    with pytest.raises(ModelError, match=r"begins at 3.0 and ends before, at 1.0"):
        run(tmp_path, "HistcExt", (H, 4, 3, 1), {}, None)
