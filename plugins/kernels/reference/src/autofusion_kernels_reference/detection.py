"""Operators of detection networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, optional


def _corners(box: np.ndarray, centre: bool) -> np.ndarray:
    """Boxes [n, 4] as (y1, x1, y2, x2) with the smaller corner first."""
    if centre:
        x, y, w, h = box.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    y1, x1, y2, x2 = box.T
    return np.stack([np.minimum(y1, y2), np.minimum(x1, x2), np.maximum(y1, y2), np.maximum(x1, x2)], 1)


def _overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one box with each of ``others``; 0 for empty boxes."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    inner = np.prod(np.maximum(0, high - low), 1)
    area = np.prod(box[2:] - box[:2])
    union = area + np.prod(others[:, 2:] - others[:, :2], 1) - inner
    return np.divide(inner, union, out=np.zeros_like(inner), where=union > 0)


def _non_max_suppression(node: Node, inputs: Inputs) -> list[Any]:
    boxes, scores = inputs[0], inputs[1]
    limit, overlap, threshold = (
        None if optional(inputs, i) is None else np.asarray(inputs[i]).reshape(()).item() for i in (2, 3, 4)
    )
    chosen: list[tuple[int, int, int]] = []
    # Float32 throughout: a box is kept or dropped by comparisons, which must see the numbers that everyone else sees.
    for batch in range(scores.shape[0]) if limit else ():
        corners = _corners(boxes[batch], bool(node.attr("center_point_box", 0)))
        for label in range(scores.shape[1]):
            values = scores[batch, label]
            above = np.arange(values.size) if threshold is None else np.flatnonzero(values > np.float32(threshold))
            order = above[np.argsort(-values[above], kind="stable")]
            kept: list[int] = []
            while order.size and len(kept) < limit:
                best, order = int(order[0]), order[1:]
                kept.append(best)
                order = order[~(_overlap(corners[best], corners[order]) > np.float32(overlap or 0.0))]
            chosen.extend((batch, label, index) for index in kept)
    return [np.array(chosen, np.int64).reshape(-1, 3)]


OPS: dict[str, OpFunction] = {"NonMaxSuppression": _non_max_suppression}
