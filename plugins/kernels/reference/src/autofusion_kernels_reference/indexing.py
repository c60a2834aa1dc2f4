"""Operators that read or write at computed positions: gathers, scatters, selections by value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.ranking import first_indices
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, normal_axis, wide

_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _checked(indices: np.ndarray, size: int) -> np.ndarray:
    """``indices`` counted from the front; raise IndexError if one is out of range."""
    if indices.size and (int(indices.min()) < -size or int(indices.max()) >= size):
        raise IndexError(f"an index lies outside [{-size}, {size - 1}]")
    if indices.size and int(indices.min()) < 0:
        indices = np.where(indices < 0, indices + size, indices)
    return indices.astype(np.intp)


def _gather(node: Node, inputs: Inputs) -> list[Any]:
    x, indices = inputs
    axis = normal_axis(node.attr("axis", 0), x.ndim)
    return [np.take(x, _checked(indices, x.shape[axis]), axis=axis)]


def _gather_elements(node: Node, inputs: Inputs) -> list[Any]:
    x, indices = inputs
    return [np.take(x.reshape(-1), _along(x, indices, node.attr("axis", 0)))]


def _along(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Places in the flat ``x`` of ``indices`` along ``axis`` and the element's own position along every other axis."""
    axis = normal_axis(axis, x.ndim)
    steps = _steps(x.shape)
    place = _checked(indices, x.shape[axis]) * steps[axis]
    for other, count in enumerate(indices.shape):
        if other != axis and count > 1:
            shape = [1] * indices.ndim
            shape[other] = count
            place += (np.arange(count) * steps[other]).reshape(shape)
    return place


def _steps(shape: tuple[int, ...]) -> list[int]:
    """How far apart neighbours along each axis lie in a dense array."""
    steps, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        steps[axis] = step
        step *= shape[axis]
    return steps


def _gather_nd(node: Node, inputs: Inputs) -> list[Any]:
    """Slices of ``x`` [*batch, *picked, *rest] at indices [*batch, ..., depth]."""
    x, indices = inputs
    batch, depth = node.attr("batch_dims", 0), indices.shape[-1]
    rows = _picked(x, indices, batch)
    for axis in range(batch):
        step = math.prod(x.shape[axis + 1 : batch + depth])
        rows = rows + (np.arange(x.shape[axis]) * step).reshape([-1 if a == axis else 1 for a in range(rows.ndim)])
    rest = x.shape[batch + depth :]
    return [np.take(x.reshape(math.prod(x.shape[: batch + depth]), *rest), rows, axis=0)]


def _picked(x: np.ndarray, indices: np.ndarray, batch: int = 0) -> np.ndarray:
    """Indices [..., depth] of the axes that follow the batch as one index into them all together, [...]."""
    place: Any = 0
    for k in range(indices.shape[-1]):
        place = place * x.shape[batch + k] + _checked(indices[..., k], x.shape[batch + k])
    return np.broadcast_to(place, indices.shape[:-1])


def _scatter(rows: np.ndarray, index: np.ndarray, updates: np.ndarray, reduction: str) -> np.ndarray:
    """``rows`` [n, ...] with ``updates`` [k, ...] written to, or combined with, those at ``index`` [k]; a new array."""
    if reduction == "none":
        out = rows.copy()
        out[index] = updates
        return out
    if rows.dtype.kind == "b":
        out, f = rows.copy(), {"add": np.logical_or, "mul": np.logical_and}.get(reduction, _REDUCTIONS[reduction])
        f.at(out, index, updates)
        return out
    out = np.array(wide(rows))
    _REDUCTIONS[reduction].at(out, index, wide(updates))
    return out.astype(rows.dtype)


def _scatter_elements(node: Node, inputs: Inputs) -> list[Any]:
    x, indices, updates = inputs
    place = _along(x, indices, node.attr("axis", 0)).reshape(-1)
    return [_scatter(x.reshape(-1), place, updates.reshape(-1), node.attr("reduction", "none")).reshape(x.shape)]


def _scatter_nd(node: Node, inputs: Inputs) -> list[Any]:
    x, indices, updates = inputs
    depth = indices.shape[-1]
    rows = x.reshape(math.prod(x.shape[:depth]), *x.shape[depth:])
    index = _picked(x, indices).reshape(-1)
    updates = updates.reshape(index.size, *x.shape[depth:])
    return [_scatter(rows, index, updates, node.attr("reduction", "none")).reshape(x.shape)]


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
    x = inputs[0]
    if x.dtype.kind == "V":
        x = wide(x)
    place = np.flatnonzero(x if x.dtype.kind in "bO" else x != 0)
    found = np.empty((x.ndim, place.size), np.int64)
    for axis in reversed(range(1, x.ndim)):
        rest = place // x.shape[axis]
        np.subtract(place, rest * x.shape[axis], out=found[axis])
        place = rest
    found[:1] = place
    return [found]


def _compress(node: Node, inputs: Inputs) -> list[Any]:
    x, condition = inputs
    axis = node.attr("axis")
    return [np.compress(condition, x.ravel() if axis is None else x, 0 if axis is None else axis)]


def _top_k(node: Node, inputs: Inputs) -> list[Any]:
    x, k = inputs[0], integers(inputs[1])[0]
    axis = normal_axis(node.attr("axis", -1), x.ndim)
    if k > x.shape[axis]:
        raise ValueError(f"expected k of at most {x.shape[axis]} (the size of axis {axis}), found {k}")
    y = np.moveaxis(x if x.dtype.kind != "V" else wide(x), axis, -1)
    order = np.moveaxis(first_indices(y, k, bool(node.attr("largest", 1))), -1, axis)
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
