"""Linear systems, distances, products, and windows, those above all that MindSpore runs on no CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.errors import ModelError
from plugins.frontends.mindspore.tests.one_primitive import run

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(11)
F32, I32 = np.float32, np.int32


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F32)


def unit(matrix: np.ndarray) -> np.ndarray:
    """With ones on the diagonal."""
    eye = np.eye(matrix.shape[-1], dtype=bool)
    return np.where(eye, F32(1), matrix)


def unfolded(x: np.ndarray, kernel: Any, dilation: Any, pad: Any, stride: Any) -> np.ndarray:
    """[N, C * kernel, places]."""
    x = np.pad(x, ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])))
    windows = np.lib.stride_tricks.sliding_window_view(
        x, [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)], (2, 3)
    )
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    n, _, rows, columns = windows.shape[:4]
    return np.ascontiguousarray(windows.transpose(0, 1, 4, 5, 2, 3)).reshape(n, -1, rows * columns)


def folded(columns: np.ndarray, channels: int, size: Any, *how: Any) -> np.ndarray:
    """What unfolding is transposed."""
    elements = channels * size[0] * size[1]
    matrix = np.stack([unfolded(e.reshape(1, channels, *size), *how).ravel() for e in np.eye(elements)])
    return (columns.reshape(len(columns), -1) @ matrix.T).reshape(-1, channels, *size).astype(F32)


A, B = floats(2, 5, 5), floats(2, 5, 3)
SINGLE = A[0]
SWAP = F32([[0, 1], [2, 0]])
P, Q = floats(2, 4, 5), floats(2, 3, 5)
U, V = floats(2, 3, 4, 3), floats(2, 3, 4, 3)
IMAGE = floats(2, 3, 6, 7)
ONE, OTHER = ((2, 2), (1, 1), (0, 0), (1, 1)), ((3, 2), (1, 2), (1, 0), (2, 1))
COLUMNS = {how: floats(*unfolded(IMAGE, *how).shape) for how in (ONE, OTHER)}
NAMES = ("kernel_size", "dilation", "padding", "stride")

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("MatrixInverse", (A,), {"adjoint": False}, np.linalg.inv(A)),
    ("MatrixInverse", (A,), {"adjoint": True}, np.linalg.inv(A.swapaxes(1, 2))),
    ("MatrixInverseExt", (SINGLE,), {}, np.linalg.inv(SINGLE)),
    ("MatrixInverseExt", (SWAP,), {}, np.linalg.inv(SWAP)),  # needs the greatest pivot
    ("MatrixInverseExt", (A.astype(np.float64),), {}, np.linalg.inv(A.astype(np.float64))),
    ("MatrixDeterminant", (A,), {}, np.linalg.det(A)),
    ("MatrixSolve", (A, B), {"adjoint": False}, np.linalg.solve(A, B)),
    ("MatrixSolve", (A, B), {"adjoint": True}, np.linalg.solve(A.swapaxes(1, 2), B)),
    ("TriangularSolve", (B, A, True, False, False), {}, (np.linalg.solve(np.triu(A), B), A)),
    ("TriangularSolve", (B, SINGLE, False, True, True), {}, (np.linalg.solve(unit(np.tril(SINGLE)).T, B), SINGLE)),
    ("SolveTriangular", (A, B, 1, True, True), {}, np.linalg.solve(unit(np.tril(A)).swapaxes(1, 2), B)),
    ("SolveTriangular", (SINGLE, B[0, :, 0].copy(), 0, False, False), {}, np.linalg.solve(np.triu(SINGLE), B[0, :, 0])),
    *(
        ("Cdist", (P, Q), {"p": p}, np.linalg.norm(P[:, :, None] - Q[:, None], p, -1).astype(F32))
        for p in (0.5, 1.0, 2.0, 3.0, float("inf"))
    ),
    ("Cdist", (P, Q), {"p": 0.0}, np.full((2, 4, 3), 5, F32)),
    ("Cross", (U, V, -1), {}, np.cross(U, V)),
    ("Cross", (U, V, -65530), {}, np.cross(U, V, axis=1)),
    ("Cross", (I32([1, 2, 3]), I32([4, 5, 7]), 0), {}, np.cross(I32([1, 2, 3]), I32([4, 5, 7]))),
    ("Outer", (P[0, 0], Q[0, 0]), {}, np.outer(P[0, 0], Q[0, 0])),
    *(("Im2ColExt", (IMAGE, *how), {}, unfolded(IMAGE, *how)) for how in (ONE, OTHER)),
    ("Im2ColExt", (IMAGE[0], *OTHER), {}, unfolded(IMAGE, *OTHER)[0]),
    ("Im2ColExt", (IMAGE, 2, 1, 0, 1), {}, unfolded(IMAGE, *ONE)),
    *(("Col2ImExt", (c, (6, 7), *how), {}, folded(c, 3, (6, 7), *how)) for how, c in COLUMNS.items()),
    ("Col2ImExt", (COLUMNS[OTHER][0], (6, 7), *OTHER), {}, folded(COLUMNS[OTHER], 3, (6, 7), *OTHER)[0]),
    (
        "Col2Im",
        (COLUMNS[OTHER].reshape(2, 3, 6, -1), I32([6, 7])),
        dict(zip(NAMES, OTHER, strict=True)),
        folded(COLUMNS[OTHER], 3, (6, 7), *OTHER),
    ),
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
        assert (result.dtype, result.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(result, want, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("primitive", "operands", "message"),
    [
        ("MatrixInverseExt", (B,), "expected square matrices"),
        ("SolveTriangular", (A, B, 7, True, True), "unknown transposition 7"),
        ("Cross", (P, P, 1), "must have 3 elements"),
        ("Cross", (U, V[0], -1), "have 4 and 3 axes"),
    ],
)
def test_what_is_refused(primitive: str, operands: tuple[Any, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        run(tmp_path, primitive, operands, {}, None)
