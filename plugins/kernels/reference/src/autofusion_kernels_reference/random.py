"""Random operators: the same seed gives the same numbers; without a seed, different ones at each run."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, optional, wanted, wide

_FLOAT32 = np.dtype(np.float32)


def _generator(node: Node) -> np.random.Generator:
    seed = node.attr("seed")
    if seed is None:
        return np.random.default_rng()
    # The attribute is a float: its bits are the seed, so that 0.25 and 0.5 differ.
    return np.random.default_rng(int(np.array(seed, np.float32).view(np.uint32)))


def _normal(node: Node, shape: tuple[int, ...], dtype: np.dtype) -> list[Any]:
    values = _generator(node).normal(node.attr("mean", 0.0), node.attr("scale", 1.0), shape)
    return [np.asarray(values).astype(dtype)]


def _uniform(node: Node, shape: tuple[int, ...], dtype: np.dtype) -> list[Any]:
    low, high = node.attr("low", 0.0), node.attr("high", 1.0)
    return [np.asarray(_generator(node).uniform(low, high, shape)).astype(dtype)]


def _random_normal(node: Node, inputs: Inputs) -> list[Any]:
    return _normal(node, tuple(node.attrs["shape"]), node.attr("dtype") or _FLOAT32)


def _random_normal_like(node: Node, inputs: Inputs) -> list[Any]:
    return _normal(node, inputs[0].shape, node.attr("dtype") or inputs[0].dtype)


def _random_uniform(node: Node, inputs: Inputs) -> list[Any]:
    return _uniform(node, tuple(node.attrs["shape"]), node.attr("dtype") or _FLOAT32)


def _random_uniform_like(node: Node, inputs: Inputs) -> list[Any]:
    return _uniform(node, inputs[0].shape, node.attr("dtype") or inputs[0].dtype)


def _bernoulli(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0]
    drawn = _generator(node).random(x.shape, np.float64 if x.dtype == np.float64 else np.float32) < x
    return [np.asarray(drawn).astype(node.attr("dtype") or x.dtype)]


def _multinomial(node: Node, inputs: Inputs) -> list[Any]:
    """Samples of class indices from unnormalised log probabilities [batch, classes], by their running sums."""
    logits, samples = wide(inputs[0]), node.attr("sample_size", 1)
    drawn = np.zeros((len(logits), samples), node.attr("dtype") or np.dtype(np.int32))
    if not logits.shape[1]:
        raise ValueError("there are no classes to draw from")
    share = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    numbers = _generator(node).random(drawn.shape) * share[:, -1:]
    for row, total, number in zip(drawn, share, numbers, strict=True):
        row[:] = np.minimum(np.searchsorted(total, number, side="right"), logits.shape[1] - 1)
    return [drawn]


def _dropout(node: Node, inputs: Inputs) -> list[Any]:
    x, ratio, training = inputs[0], optional(inputs, 1), optional(inputs, 2)
    ratio = 0.5 if ratio is None else float(np.asarray(ratio).reshape(()))
    if training is None or not bool(np.asarray(training).reshape(())) or ratio == 0:
        return [x, np.ones(x.shape, bool)] if wanted(node, 1) else [x]
    # With a seed, the numbers of the standard's reference implementation: the generator of the same seed that it names.
    seed = node.attr("seed")
    drawn = np.random.default_rng() if seed is None else np.random.RandomState(int(seed) & 0xFFFFFFFF)
    keep = drawn.uniform(0.0, 1.0, x.shape) >= ratio
    y = np.where(keep, wide(x) / (1 - ratio), 0).astype(x.dtype)
    return [y, keep]


OPS: dict[str, OpFunction] = {
    "Bernoulli": _bernoulli,
    "Dropout": _dropout,
    "Multinomial": _multinomial,
    "RandomNormal": _random_normal,
    "RandomNormalLike": _random_normal_like,
    "RandomUniform": _random_uniform,
    "RandomUniformLike": _random_uniform_like,
}
