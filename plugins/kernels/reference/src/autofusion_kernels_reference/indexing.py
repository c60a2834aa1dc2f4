"""Operators that read or write at computed positions: gathers, scatters, selections by value."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, normal_axis, wide

_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _checked(indices: np.ndarray, size: int) -> np.ndarray:
    """``indices`` counted from the front; raise IndexError if one is out of range."""
    if indices.size and (int(indices.min()) < -size or int(indices.max()) >= size):
        raise IndexError(f"an index lies outside [{-size}, {size - 1}]")
    return np.where(indices < 0, indices + size, indices).astype(np.intp)


def _gather(node: Node, inputs: Inputs) -> list[Any]:
    x, indices = inputs
    axis = normal_axis(node.attr("axis", 0), x.ndim)
    return [np.take(x, _checked(indices, x.shape[axis]), axis=axis)]


def _gather_elements(node: Node, inputs: Inputs) -> list[Any]:
    x, indices = inputs
    return [x[_along(x, indices, node.attr("axis", 0))]]


def _along(x: np.ndarray, indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """The index tuple that has ``indices`` along ``axis`` and the element's own position along every other axis."""
    axis = normal_axis(axis, x.ndim)
    position = list(np.ogrid[tuple(slice(0, n) for n in indices.shape)])
    position[axis] = _checked(indices, x.shape[axis])
    return tuple(position)


def _gather_nd(node: Node, inputs: Inputs) -> list[Any]:
    x, indices = inputs
    batch = node.attr("batch_dims", 0)
    depth = indices.shape[-1]
    index: list[Any] = []
    for axis in range(batch):
        index.append(np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(indices.ndim - 1)]))
    for k in range(depth):
        index.append(_checked(indices[..., k], x.shape[batch + k]))
    return [x[tuple(index)]]


def _scatter(x: np.ndarray, index: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str) -> np.ndarray:
    if reduction == "none":
        out = x.copy()
        out[index] = updates
        return out
    out = np.array(wide(x))
    if out.dtype.kind == "b":
        out, f = out.copy(), {"add": np.logical_or, "mul": np.logical_and}.get(reduction, _REDUCTIONS[reduction])
        f.at(out, index, updates)
        return out
    _REDUCTIONS[reduction].at(out, index, wide(updates))
    return out.astype(x.dtype)


def _scatter_elements(node: Node, inputs: Inputs) -> list[Any]:
    x, indices, updates = inputs
    return [_scatter(x, _along(x, indices, node.attr("axis", 0)), updates, node.attr("reduction", "none"))]


def _scatter_nd(node: Node, inputs: Inputs) -> list[Any]:
    x, indices, updates = inputs
    index = tuple(_checked(indices[..., k], x.shape[k]) for k in range(indices.shape[-1]))
    return [_scatter(x, index, updates, node.attr("reduction", "none"))]


def _tensor_scatter(node: Node, inputs: Inputs) -> list[Any]:
    """Each row of the batch (axis 0) gets its update written from its own index along ``axis`` on."""
    cache, update = inputs[0].copy(), inputs[1]
    axis = normal_axis(node.attr("axis", -2), cache.ndim)
    first = inputs[2] if len(inputs) > 2 and inputs[2] is not None else np.zeros(len(cache), np.int64)
    for row in range(len(cache)):
        places = int(first[row]) + np.arange(update.shape[axis])
        if node.attr("mode", "linear") == "circular":
            places %= cache.shape[axis]
        np.moveaxis(cache[row], axis - 1, 0)[places] = np.moveaxis(update[row], axis - 1, 0)
    return [cache]


def _one_hot(node: Node, inputs: Inputs) -> list[Any]:
    indices, depth, values = inputs[0], integers(inputs[1])[0], inputs[2]
    axis = normal_axis(node.attr("axis", -1), indices.ndim + 1)
    classes = np.arange(depth).reshape([-1 if a == axis else 1 for a in range(indices.ndim + 1)])
    position = indices.astype(np.int64)
    position = np.where(position < 0, position + depth, position)  # out of range after that: an all-off row
    return [np.where(np.expand_dims(position, axis) == classes, values[1], values[0])]


def _non_zero(node: Node, inputs: Inputs) -> list[Any]:
    """[...] -> [rank, N]; a scalar has no axes, so that its positions are [0, 1] or [0, 0]."""
    x = wide(inputs[0])
    found = np.nonzero(np.atleast_1d(x))
    return [np.array(found, np.int64).reshape(len(found), -1)[: x.ndim]]


def _compress(node: Node, inputs: Inputs) -> list[Any]:
    x, condition = inputs
    axis = node.attr("axis")
    return [np.compress(condition, x.ravel() if axis is None else x, 0 if axis is None else axis)]


def _top_k(node: Node, inputs: Inputs) -> list[Any]:
    x, k = inputs[0], integers(inputs[1])[0]
    axis = normal_axis(node.attr("axis", -1), x.ndim)
    if k > x.shape[axis]:
        raise ValueError(f"expected k of at most {x.shape[axis]} (the size of axis {axis}), found {k}")
    y = wide(x)
    if node.attr("largest", 1):
        # A stable sort of the reversed array, reversed: descending, with the lower index first among equals.
        order = np.flip(y.shape[axis] - 1 - np.argsort(np.flip(y, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(y, axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int64)]


def _unique(node: Node, inputs: Inputs) -> list[Any]:
    x, axis = inputs[0], node.attr("axis")
    axis = None if axis is None else normal_axis(axis, x.ndim)
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.ravel()
    if not node.attr("sorted", 1):
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return [values, *(a.astype(np.int64) for a in (first, inverse, counts))]


OPS: dict[str, OpFunction] = {
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top_k,
    "Unique": _unique,
}
