"""Primitives whose operands have open sizes: one session takes several, and gives what fixed sizes give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofusion as af
from plugins.frontends.mindspore.tests.one_primitive import OnePrimitive, run

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(12)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def boxes(count: int) -> np.ndarray:
    first = RNG.uniform(0, 50, (count, 2))
    scores = RNG.permutation(count)[:, None] / count
    return np.concatenate([first, first + RNG.uniform(5, 30, (count, 2)), scores], 1).astype(np.float32)


EQUAL = floats(2, 5)
CASES: list[tuple[str, list[np.ndarray], list[np.ndarray], tuple[Any, ...], dict[str, Any], dict[int, list[int]]]] = [
    ("NMSWithMask", [boxes(8)], [boxes(13)], (), {"iou_threshold": 0.5}, {0: [0]}),
    (
        "CTCGreedyDecoder",
        [floats(6, 2, 4), ints(6, 3)],
        [floats(9, 3, 4), ints(9, 2, 5)],
        (),
        {"merge_repeated": True},
        {0: [0, 1], 1: [0]},
    ),
    ("EqualExt", [floats(3, 4), floats(3, 4)], [EQUAL, EQUAL.copy()], (), {}, {0: [0, 1], 1: [0, 1]}),
    ("EqualExt", [floats(3, 4), floats(4, 3)], [EQUAL, EQUAL.copy()], (), {}, {0: [0, 1], 1: [0, 1]}),
    ("MedianDim", [floats(3, 4)], [floats(2, 7)], (1, False), {}, {0: [0, 1]}),
    ("Unique", [ints(1, 3, 1)], [ints(4, 4, 2, 2, 4)], (), {}, {0: [0]}),
    ("UniqueWithPad", [ints(1, 3, 1)], [ints(4, 4, 2, 2, 4)], (0,), {}, {0: [0]}),
    ("UniqueConsecutive", [ints(1, 3, 3)], [ints(4, 4, 2, 2, 4)], (), {}, {0: [0]}),
    ("MatrixInverseExt", [floats(2, 3, 3)], [floats(4, 3, 3)], (), {}, {0: [0]}),
    ("Cdist", [floats(3, 4), floats(2, 4)], [floats(5, 4), floats(6, 4)], (), {"p": 2.0}, {0: [0], 1: [0]}),
    ("SearchSorted", [np.sort(floats(5)), floats(3)], [np.sort(floats(7)), floats(4)], (None,), {}, {0: [0], 1: [0]}),
]


@pytest.mark.parametrize("level", ["off", "full"])
@pytest.mark.parametrize(
    ("primitive", "first", "second", "rest", "attrs", "open_axes"),
    CASES,
    ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)],
)
def test_one_session_takes_several_sizes(
    primitive: str,
    first: list[np.ndarray],
    second: list[np.ndarray],
    rest: tuple[Any, ...],
    attrs: dict[str, Any],
    open_axes: dict[int, list[int]],
    level: str,
    tmp_path: Path,
) -> None:
    built = OnePrimitive(primitive, (*first, *rest), attrs, None)
    for operand, axes in open_axes.items():
        for axis in axes:
            built.graph.input[operand].tensor[0].dims[axis] = -1
    path = tmp_path / "open.mindir"
    path.write_bytes(built.model.SerializeToString())
    session = af.compile(path, level=level, threads=1)
    for inputs in (first, second, first):
        given = session.run({f"x{i}": x for i, x in enumerate(inputs)})
        wanted = run(tmp_path, primitive, (*inputs, *rest), attrs, None)
        for result, want in zip(given.values(), wanted, strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)
            assert np.asarray(result).shape == want.shape
