"""Normalisations: over the batch, over trailing axes, over channels, groups and neighbouring channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, normal_axis, optional, wide

_FLOAT, _FLOAT16, _DOUBLE, _BFLOAT16 = 1, 10, 11, 16


def _mean(y: np.ndarray, axes: tuple[int, ...], keepdims: bool = False) -> np.ndarray:
    """The mean; of nothing it is NaN, without a warning."""
    return np.asarray(y.sum(axes, keepdims=keepdims) / np.float64(math.prod(y.shape[a] for a in axes)))


def _variance(y: np.ndarray, axes: tuple[int, ...], keepdims: bool = False) -> np.ndarray:
    """The biased variance."""
    return _mean(np.square(y - _mean(y, axes, True)), axes, keepdims)


def _per_channel(v: np.ndarray, rank: int) -> np.ndarray:
    return wide(v).reshape([-1 if a == 1 else 1 for a in range(rank)])


def _batch_normalization(node: Node, inputs: Inputs) -> list[Any]:
    x, scale, bias, mean, variance = inputs
    epsilon = node.attr("epsilon", 1e-5)
    y = wide(x)
    results: list[Any] = []
    if node.attr("training_mode", 0):
        axes = tuple(a for a in range(x.ndim) if a != 1)
        batch_mean, batch_variance = _mean(y, axes), _variance(y, axes)  # the biased variance, as the operator says
        momentum = node.attr("momentum", 0.9)
        results = [
            (wide(old) * momentum + new * (1 - momentum)).astype(old.dtype)
            for old, new in ((mean, batch_mean), (variance, batch_variance))
        ]
        mean, variance = batch_mean, batch_variance
    else:
        results = [mean, variance]  # which do not change
    mean, variance, scale, bias = (_per_channel(v, x.ndim) for v in (mean, variance, scale, bias))
    y = (y - mean) / np.sqrt(variance + epsilon) * scale + bias
    return [y.astype(x.dtype), *results]


def _stash_dtype(node: Node, x: np.ndarray) -> np.dtype:
    """The type that statistics are stored in: float32 unless the node says otherwise."""
    stash = node.attr("stash_type", _FLOAT)
    if isinstance(stash, np.dtype):
        return stash
    if stash == _BFLOAT16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({_FLOAT: np.float32, _FLOAT16: np.float16, _DOUBLE: np.float64}[stash])


def _layer_normalization(node: Node, inputs: Inputs) -> list[Any]:
    x, scale, bias = inputs[0], inputs[1], optional(inputs, 2)
    axes = tuple(range(normal_axis(node.attr("axis", -1), x.ndim), x.ndim))
    y = wide(x)
    mean = _mean(y, axes, keepdims=True)
    inverse = 1 / np.sqrt(_variance(y, axes, keepdims=True) + node.attr("epsilon", 1e-5))
    y = (y - mean) * inverse * wide(scale)
    if bias is not None:
        y = y + wide(bias)
    stash = _stash_dtype(node, x)
    return [y.astype(x.dtype), mean.astype(stash), inverse.astype(stash)]


def _rms_normalization(node: Node, inputs: Inputs) -> list[Any]:
    x, scale = inputs
    axes = tuple(range(normal_axis(node.attr("axis", -1), x.ndim), x.ndim))
    y = wide(x)
    y = y / np.sqrt(np.mean(y * y, axes, keepdims=True) + node.attr("epsilon", 1e-5)) * wide(scale)
    return [y.astype(scale.dtype)]


def _standardise(y: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    return (y - _mean(y, axes, keepdims=True)) / np.sqrt(_variance(y, axes, keepdims=True) + epsilon)


def _instance_normalization(node: Node, inputs: Inputs) -> list[Any]:
    x, scale, bias = inputs
    y = _standardise(wide(x), tuple(range(2, x.ndim)), node.attr("epsilon", 1e-5))
    return [(y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)).astype(x.dtype)]


def _group_normalization(node: Node, inputs: Inputs) -> list[Any]:
    x, scale, bias = inputs
    groups = node.attrs["num_groups"]
    y = wide(x).reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    y = _standardise(y, (2,), node.attr("epsilon", 1e-5)).reshape(x.shape)
    return [(y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)).astype(x.dtype)]


def _mean_variance_normalization(node: Node, inputs: Inputs) -> list[Any]:
    x, axes = inputs[0], tuple(node.attr("axes", (0, 2, 3)))
    y = wide(x)
    deviation = np.sqrt(_variance(y, axes, keepdims=True))
    return [((y - _mean(y, axes, keepdims=True)) / (deviation + 1e-9)).astype(x.dtype)]


def _lrn(node: Node, inputs: Inputs) -> list[Any]:
    x, size = inputs[0], node.attrs["size"]
    y = wide(x)
    channels = x.shape[1]
    squares = np.square(y)
    total = np.zeros_like(y)
    for c in range(channels):
        low, high = max(0, c - (size - 1) // 2), min(channels - 1, c + math.ceil((size - 1) / 2))
        total[:, c] = squares[:, low : high + 1].sum(1)
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    return [(y / (bias + alpha / size * total) ** beta).astype(x.dtype)]


def _lp_normalization(node: Node, inputs: Inputs) -> list[Any]:
    x, axis = inputs[0], node.attr("axis", -1)
    y = wide(x)
    norm = np.abs(y).sum(axis, keepdims=True) if node.attr("p", 2) == 1 else np.sqrt((y * y).sum(axis, keepdims=True))
    return [np.where(norm == 0, 0, y / norm).astype(x.dtype)]


OPS: dict[str, OpFunction] = {
    "BatchNormalization": _batch_normalization,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _lrn,
    "LayerNormalization": _layer_normalization,
    "LpNormalization": _lp_normalization,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "RMSNormalization": _rms_normalization,
}
