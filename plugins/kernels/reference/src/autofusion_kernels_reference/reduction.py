"""Reductions over axes, Softmax and its relatives, and running sums. Sums of floating types are taken in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import (
    Inputs,
    OpFunction,
    highest,
    integers,
    is_integer,
    lowest,
    normal_axes,
    normal_axis,
    optional,
    wide,
)

ReduceFunction = Callable[[np.ndarray, tuple[int, ...]], np.ndarray]


def _reduce(f: ReduceFunction) -> OpFunction:
    """A reduction by ``f(x, axes)``, which keeps the reduced axes as size 1."""

    def run(node: Node, inputs: Inputs) -> list[Any]:
        x, given = inputs[0], optional(inputs, 1)
        axes = None if given is None else integers(given)
        if not axes:
            if node.attr("noop_with_empty_axes", 0):
                return [np.asarray(f(wide(x), ())).astype(x.dtype)]
            axes = None
        chosen = normal_axes(axes, x.ndim)
        y = np.asarray(f(wide(x), chosen)).astype(x.dtype)
        return [y if node.attr("keepdims", 1) else np.squeeze(y, chosen)]

    return run


def _sum(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)


def _mean(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    count = math.prod(x.shape[a] for a in axes)
    if is_integer(x.dtype):
        total = np.sum(x, axis=axes, keepdims=True, dtype=np.int64)
        return np.trunc(total / count)
    return _sum(x, axes) / np.float64(count)


def _max(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.max(x, axis=axes, keepdims=True, initial=lowest(x.dtype))


def _min(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.min(x, axis=axes, keepdims=True, initial=highest(x.dtype))


def _log_sum_exp(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    x = x.astype(np.float64)
    top = _max(x, axes)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(_sum(np.exp(x - top), axes)) + top


def _arg(f: Callable[..., np.ndarray]) -> OpFunction:
    def run(node: Node, inputs: Inputs) -> list[Any]:
        x = wide(inputs[0])
        axis = normal_axis(node.attr("axis", 0), x.ndim)
        if node.attr("select_last_index", 0):
            y = x.shape[axis] - 1 - f(np.flip(x, axis), axis=axis)
        else:
            y = f(x, axis=axis)
        y = np.asarray(y).astype(np.int64)
        return [np.expand_dims(y, axis) if node.attr("keepdims", 1) else y]

    return run


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """exp(x) / sum(exp(x)) along ``axis``, shifted by the maximum; ``x`` is float64."""
    if x.shape[axis] == 0:
        return x
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _softmax(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0]
    return [softmax(wide(x), node.attr("axis", -1)).astype(x.dtype)]


def _log_softmax(node: Node, inputs: Inputs) -> list[Any]:
    x, axis = inputs[0], node.attr("axis", -1)
    y = wide(x)
    if y.shape[axis] == 0:
        return [x]
    y = y - np.max(y, axis=axis, keepdims=True)
    return [(y - np.log(np.sum(np.exp(y), axis=axis, keepdims=True))).astype(x.dtype)]


def _hardmax(node: Node, inputs: Inputs) -> list[Any]:
    x, axis = inputs[0], node.attr("axis", -1)
    out = np.zeros(x.shape, x.dtype)
    if x.size:
        np.put_along_axis(out, np.argmax(wide(x), axis=axis, keepdims=True), np.ones((), x.dtype), axis)
    return [out]


def _cumulative(function: Callable[..., np.ndarray], first: Callable[[np.ndarray], np.ndarray]) -> OpFunction:
    """Running totals along an axis; exclusive ones begin with ``first`` and leave the last element out."""

    def run(node: Node, inputs: Inputs) -> list[Any]:
        x = inputs[0]
        axis = normal_axis(integers(inputs[1])[0], x.ndim)
        along = lambda part: tuple([slice(None)] * axis + [part])  # noqa: E731
        back = along(slice(None, None, -1 if node.attr("reverse", 0) else 1))
        y = wide(x)[back]
        total = function(y, axis=axis, dtype=y.dtype)
        if node.attr("exclusive", 0):
            total = np.concatenate([first(total[along(slice(0, 1))]), total[along(slice(0, -1))]], axis)
        return [total[back].astype(x.dtype)]

    return run


OPS: dict[str, OpFunction] = {
    "ArgMax": _arg(np.argmax),
    "ArgMin": _arg(np.argmin),
    "CumProd": _cumulative(np.cumprod, np.ones_like),
    "CumSum": _cumulative(np.cumsum, np.zeros_like),
    "Hardmax": _hardmax,
    "LogSoftmax": _log_softmax,
    "ReduceL1": _reduce(lambda x, axes: _sum(np.abs(x), axes)),
    "ReduceL2": _reduce(lambda x, axes: np.sqrt(_sum(np.square(x.astype(np.float64)), axes))),
    "ReduceLogSum": _reduce(lambda x, axes: np.log(_sum(x, axes))),
    "ReduceLogSumExp": _reduce(_log_sum_exp),
    "ReduceMax": _reduce(_max),
    "ReduceMean": _reduce(_mean),
    "ReduceMin": _reduce(_min),
    "ReduceProd": _reduce(lambda x, axes: np.prod(x, axis=axes, keepdims=True, dtype=x.dtype)),
    "ReduceSum": _reduce(_sum),
    "ReduceSumSquare": _reduce(lambda x, axes: _sum(np.square(x), axes)),
    "Softmax": _softmax,
}
