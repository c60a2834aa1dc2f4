"""Matrix products, accumulated in float64 and rounded once; integer products wrap around as the operator set asks."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, optional, wide


def exact_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of small-integer matrices, as int64, through float64: exact below 2^53, and much faster in NumPy."""
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)


def _matmul(node: Node, inputs: Inputs) -> list[Any]:
    a, b = inputs
    return [np.asarray(np.matmul(wide(a), wide(b))).astype(a.dtype)]


def _gemm(node: Node, inputs: Inputs) -> list[Any]:
    a, b, c = inputs[0], inputs[1], optional(inputs, 2)
    left = wide(a).T if node.attr("transA", 0) else wide(a)
    right = wide(b).T if node.attr("transB", 0) else wide(b)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    y = np.matmul(left, right)
    y = y if alpha == 1 else y * alpha
    if c is not None and beta != 0:
        y = y + (wide(c) if beta == 1 else wide(c) * beta)
    return [y.astype(a.dtype)]


def _einsum(node: Node, inputs: Inputs) -> list[Any]:
    y = np.einsum(node.attrs["equation"].replace(" ", ""), *(wide(x) for x in inputs), optimize=True)
    return [np.asarray(y).astype(inputs[0].dtype)]


def _zero_point(zero: np.ndarray | None, axis_from_end: int, rank: int) -> np.ndarray:
    """A zero point (absent, scalar, or one for each row or column) in int64, shaped to broadcast."""
    if zero is None:
        return np.zeros((), np.int64)
    zero = zero.astype(np.int64)
    if zero.ndim == 1 and zero.size > 1 and rank > 1:
        return np.expand_dims(zero, -1) if axis_from_end == 2 else zero
    return zero if zero.ndim > 1 else zero.reshape(()) if zero.size == 1 else zero


def _matmul_integer(node: Node, inputs: Inputs) -> list[Any]:
    a, b = inputs[0], inputs[1]
    left = a.astype(np.int64) - _zero_point(optional(inputs, 2), 2, a.ndim)
    right = b.astype(np.int64) - _zero_point(optional(inputs, 3), 1, b.ndim)
    return [np.asarray(exact_matmul(left, right)).astype(np.int32)]


def _det(node: Node, inputs: Inputs) -> list[Any]:
    return [np.asarray(np.linalg.det(wide(inputs[0]))).astype(inputs[0].dtype)]


OPS: dict[str, OpFunction] = {
    "Det": _det,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
}
