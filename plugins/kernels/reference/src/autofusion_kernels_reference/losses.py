"""Losses, which some exported training graphs still hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, optional, wide


def _loss(node: Node, log_probability: np.ndarray, inputs: Inputs) -> np.ndarray:
    """The weighted negative log likelihood of labels [N, ...] under [N, C, ...], float64, reduced as the node says."""
    labels, weight, ignored = inputs[1].astype(np.int64), optional(inputs, 2), node.attr("ignore_index")
    classes = log_probability.shape[1]
    chosen = labels if ignored is None else np.where(labels == ignored, 0, labels)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= classes):
        raise IndexError(f"a label lies outside [0, {classes - 1}]")
    picked = wide(np.take_along_axis(log_probability, np.expand_dims(chosen, 1), axis=1)[:, 0])
    share = np.ones(labels.shape) if weight is None else wide(weight)[chosen]
    loss = -picked * share
    if ignored is not None:
        share, loss = (np.where(labels == ignored, 0.0, part) for part in (share, loss))
    reduction = node.attr("reduction", "mean")
    if reduction == "none":
        return loss
    return np.asarray(loss.sum() / share.sum() if reduction == "mean" else loss.sum())


def _negative_log_likelihood(node: Node, inputs: Inputs) -> list[Any]:
    return [_loss(node, inputs[0], inputs).astype(inputs[0].dtype)]


def _softmax_cross_entropy(node: Node, inputs: Inputs) -> list[Any]:
    x = inputs[0]
    shifted = wide(x) - np.max(wide(x), axis=1, keepdims=True)
    log_probability = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return [_loss(node, log_probability, inputs).astype(x.dtype), log_probability.astype(x.dtype)]


OPS: dict[str, OpFunction] = {
    "NegativeLogLikelihoodLoss": _negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": _softmax_cross_entropy,
}
