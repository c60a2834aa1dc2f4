"""What primitives compute, by their definition in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

F32, F64 = np.float32, np.float64


def erf(x: np.ndarray) -> np.ndarray:
    from math import erf as one

    return np.vectorize(one)(x.astype(F64)).astype(F32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def where(condition: np.ndarray, x: Any, y: Any) -> np.ndarray:
    return np.where(condition, x, y).astype(F32)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def scattered(base: np.ndarray, index: Any, updates: Any, ufunc: Any = None) -> np.ndarray:
    out = base.copy()
    if ufunc is None:
        out[index] = updates
    else:
        ufunc.at(out, index, updates)
    return out


def convolved(x: np.ndarray, w: np.ndarray, stride: int, pad: int, dilation: int = 1, groups: int = 1) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), *[(pad, pad)] * (x.ndim - 2)]).astype(F64)
    spatial, each = x.ndim - 2, x.shape[1] // groups
    sizes = [(x.shape[2 + i] - dilation * (w.shape[2 + i] - 1) - 1) // stride + 1 for i in range(spatial)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    for o in range(w.shape[0]):
        first = o // (w.shape[0] // groups) * each
        for place in np.ndindex(*sizes):
            at = tuple(
                slice(p * stride, p * stride + dilation * (k - 1) + 1, dilation)
                for p, k in zip(place, w.shape[2:], strict=True)
            )
            window = x[(slice(None), slice(first, first + each), *at)]
            out[(slice(None), o, *place)] = (window * w[o]).reshape(x.shape[0], -1).sum(1)
    return out.astype(F32)


def transposed(x: np.ndarray, w: np.ndarray, stride: int, pad: int, extra: int = 0) -> np.ndarray:
    spatial = x.ndim - 2
    sizes = [(x.shape[2 + i] - 1) * stride + w.shape[2 + i] + extra for i in range(spatial)]
    out = np.zeros((x.shape[0], w.shape[1], *sizes))
    for place in np.ndindex(*x.shape[2:]):
        at = tuple(slice(p * stride, p * stride + k) for p, k in zip(place, w.shape[2:], strict=True))
        column = x[(slice(None), slice(None), *place)]
        out[(slice(None), slice(None), *at)] += np.tensordot(column, w, (1, 0))
    cut = tuple(slice(pad, s - pad) for s in sizes)
    return out[(slice(None), slice(None), *cut)].astype(F32)


def pooled(x: np.ndarray, kernel: int, stride: int, pad: int, function: Any, fill: float = np.nan) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), *[(pad, pad)] * (x.ndim - 2)], constant_values=fill)
    sizes = [(s - kernel) // stride + 1 for s in x.shape[2:]]
    out = np.zeros((*x.shape[:2], *sizes), F32)
    for place in np.ndindex(*sizes):
        at = tuple(slice(p * stride, p * stride + kernel) for p in place)
        out[(slice(None), slice(None), *place)] = function(
            x[(slice(None), slice(None), *at)].reshape(*x.shape[:2], -1), 2
        )
    return out


def norm(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def shuffled(x: np.ndarray, _: int) -> np.ndarray:
    return x.reshape(1, 1, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 4, 6)


def columns(x: np.ndarray) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    return np.stack([x[:, :, r : r + 7, c : c + 4].reshape(2, 3, 28) for r in (0, 1) for c in (0, 1)], 2)
