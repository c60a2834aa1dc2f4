"""Matrix products, accumulated wider than their operands and rounded once; integer ones are exact, then wrap around."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, optional, wide

EXACT = 1 << 24
"""Whole numbers up to this size, and their sums while they stay below, are exact in float32."""

_CHUNKS = 16


def half_or_wide(x: np.ndarray) -> np.ndarray:
    """16-bit floating types in float32, as every processor multiplies them; others as ``wide`` has them."""
    return x.astype(np.float32) if x.dtype.name in ("float16", "bfloat16") else wide(x)


def magnitude(x: np.ndarray) -> int:
    """The largest absolute value of whole numbers."""
    return int(max(abs(float(x.min(initial=0))), abs(float(x.max(initial=0)))))


def centred(x: np.ndarray, zero: np.ndarray | None) -> np.ndarray:
    """Small integers less their zero point (shaped to broadcast), as float32: exact."""
    return x.astype(np.float32) if zero is None else x.astype(np.float32) - zero.astype(np.float32)


def exact_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of matrices of whole numbers (held in float32) as float64, exact: BLAS is much faster than integers.

    In float32 as long as no sum can reach 2^24, in as many parts along the inner axis as that needs; in float64 (exact
    below 2^53) if those would be many.
    """
    inner = a.shape[-1]
    largest = magnitude(a) * magnitude(b)
    part = inner if largest * inner < EXACT else (EXACT - 1) // max(largest, 1)
    if part * _CHUNKS < inner or b.ndim < 2:
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)))
    total: Any = 0.0
    for begin in range(0, inner, max(part, 1)):
        cut = slice(begin, begin + part)
        total = total + np.asarray(np.matmul(a[..., cut], b[..., cut, :]), np.float64)
    return np.asarray(total) if inner else np.asarray(np.matmul(a, b), np.float64)


def _matmul(node: Node, inputs: Inputs) -> list[Any]:
    a, b = inputs
    return [np.asarray(np.matmul(half_or_wide(a), half_or_wide(b))).astype(a.dtype)]


def _gemm(node: Node, inputs: Inputs) -> list[Any]:
    a, b, c = inputs[0], inputs[1], optional(inputs, 2)
    left = half_or_wide(a).T if node.attr("transA", 0) else half_or_wide(a)
    right = half_or_wide(b).T if node.attr("transB", 0) else half_or_wide(b)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    y = np.matmul(left, right)
    y = y if alpha == 1 else y * alpha
    if c is not None and beta != 0:
        y = y + (wide(c) if beta == 1 else wide(c) * beta)
    return [y.astype(a.dtype)]


def _einsum(node: Node, inputs: Inputs) -> list[Any]:
    equation = node.attrs["equation"].replace(" ", "")
    operands = [wide(x) for x in inputs]
    y = _as_product(equation, operands)
    if y is None:
        y = np.einsum(equation, *operands, optimize=True)
    return [np.asarray(y).astype(inputs[0].dtype)]


def _as_product(equation: str, operands: list[np.ndarray]) -> np.ndarray | None:
    """The sum of products of two operands as one product of matrices; None if an operand repeats a letter or has '...'.

    NumPy's own sums walk element by element where letters are shared by both operands and the result.
    """
    terms, arrow, result = equation.partition("->")
    names = terms.split(",")
    if len(names) != 2 or not arrow or "." in equation or any(len(set(n)) != len(n) for n in (*names, result)):
        return None
    sizes: dict[str, int] = {}
    for name, x in zip(names, operands, strict=True):
        if len(name) != x.ndim or any(sizes.setdefault(c, n) != n for c, n in zip(name, x.shape, strict=True)):
            return None  # a size of one that broadcasts, or an error: both are NumPy's
    # Letters that are neither in the other operand nor in the result are summed at once.
    left, right = (
        (
            "".join(c for c in own if c in other or c in result),
            x.sum(axis=tuple(i for i, c in enumerate(own) if c not in other and c not in result)),
        )
        for own, other, x in ((names[0], names[1], operands[0]), (names[1], names[0], operands[1]))
    )
    batch = [c for c in left[0] if c in right[0] and c in result]
    inner = [c for c in left[0] if c in right[0] and c not in result]
    rows = [c for c in left[0] if c not in right[0]]
    columns = [c for c in right[0] if c not in left[0]]
    count = lambda letters: math.prod(sizes[c] for c in letters)  # noqa: E731

    def matrices(term: tuple[str, np.ndarray], first: list[str], second: list[str]) -> np.ndarray:
        order = [term[0].index(c) for c in (*batch, *first, *second)]
        return term[1].transpose(order).reshape(count(batch), count(first), count(second))

    y = np.matmul(matrices(left, rows, inner), matrices(right, inner, columns))
    made = [*batch, *rows, *columns]
    return y.reshape([sizes[c] for c in made]).transpose([made.index(c) for c in result])


def matrix_parameter(parameter: np.ndarray | None, matrix_rank: int, *, rows: bool) -> Any:
    """A scale or zero point of a matrix operand, shaped to broadcast: one, one for each row, or one for each column."""
    if parameter is None or parameter.size == 1:
        return None if parameter is None else parameter.reshape(())
    return parameter[:, None] if parameter.ndim == 1 and rows and matrix_rank > 1 else parameter


def _matmul_integer(node: Node, inputs: Inputs) -> list[Any]:
    a, b = inputs[0], inputs[1]
    left = centred(a, matrix_parameter(optional(inputs, 2), a.ndim, rows=True))
    right = centred(b, matrix_parameter(optional(inputs, 3), b.ndim, rows=False))
    return [exact_matmul(left, right).astype(np.int64).astype(np.int32)]


def _det(node: Node, inputs: Inputs) -> list[Any]:
    return [np.asarray(np.linalg.det(wide(inputs[0]))).astype(inputs[0].dtype)]


OPS: dict[str, OpFunction] = {
    "Det": _det,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
}
