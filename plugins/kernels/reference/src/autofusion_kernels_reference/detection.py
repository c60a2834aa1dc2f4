"""Operators of detection networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.ranking import first_indices
from autofusion_kernels_reference.support import Inputs, OpFunction, optional

_BLOCK = 128
"""Boxes of one class that are compared with each other at once."""
_FEW, _PAIRS = 32, 1 << 17
"""The least number of best boxes that all classes are tried with, and the pairs of them that are compared at once."""


def _corners(box: np.ndarray, centre: bool) -> np.ndarray:
    """Boxes [..., n, 4] as (y1, x1, y2, x2, area) [..., 5, n], with the smaller corner first."""
    a, b, c, d = np.moveaxis(box, -1, 0)
    if centre:
        low, high = (b - d / 2, a - c / 2), (b + d / 2, a + c / 2)
    else:
        low, high = (np.minimum(a, c), np.minimum(b, d)), (np.maximum(a, c), np.maximum(b, d))
    return np.stack([*low, *high, (high[0] - low[0]) * (high[1] - low[1])], -2)


def _covers(one: np.ndarray, other: np.ndarray, overlap: np.float32) -> np.ndarray:
    """Whether intersection over union exceeds ``overlap``; never for empty boxes.

    Boxes [..., 5, n] and [..., 5, m] -> [..., n, m].
    """
    y1, x1, y2, x2, area = (one[..., i, :, None] for i in range(5))
    v1, u1, v2, u2, size = (other[..., i, None, :] for i in range(5))
    height = np.minimum(y2, v2)
    height -= np.maximum(y1, v1)
    inner = np.minimum(x2, u2)
    inner -= np.maximum(x1, u1)
    np.maximum(inner, 0, out=inner)
    inner *= np.maximum(height, 0, out=height)
    union = area + size
    union -= inner
    # Float32 throughout: a box is kept or dropped by comparisons, which must see the numbers that everyone else sees.
    with np.errstate(all="ignore"):
        np.divide(inner, union, out=inner)
    return (inner > overlap) & (union > 0)


def _stays(covers: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Which boxes [..., n], best first, no better one that stays covers, of those that count; ``covers`` [..., n, n].

    A box stays if none before it that stays covers it. Repeating that settles, from the front on, after as many rounds
    as the longest chain of covers has links.
    """
    covers = np.triu(covers, 1)
    stays = counts
    while True:
        now = counts & ~(covers & stays[..., None]).any(-2)
        if np.array_equal(now, stays):
            return now
        stays = now


def _kept(boxes: np.ndarray, limit: int, overlap: np.float32) -> np.ndarray:
    """Places of the boxes [5, n], best first, that no better kept one covers; at most ``limit``.

    Block by block: each is compared with what is kept, then with itself.
    """
    places: list[np.ndarray] = []
    chosen = np.zeros((5, 0), boxes.dtype)
    for begin in range(0, boxes.shape[1], _BLOCK):
        at = np.arange(begin, min(begin + _BLOCK, boxes.shape[1]))
        if chosen.shape[1]:
            at = at[~_covers(chosen, boxes[:, at], overlap).any(0)]
        block = boxes[:, at]
        at = at[_stays(_covers(block, block, overlap), np.ones(at.size, bool))][: limit - chosen.shape[1]]
        places.append(at)
        chosen = np.concatenate([chosen, boxes[:, at]], 1)
        if chosen.shape[1] >= limit:
            break
    return np.concatenate(places) if places else np.zeros(0, np.int64)


def _all_kept(boxes: np.ndarray, scores: np.ndarray, least: Any, limit: int, overlap: np.float32) -> np.ndarray:
    """Indices of the kept boxes, class by class and best first, and their classes: [k, 2] as (class, box).

    Boxes [5, n], scores [C, n]. The best few boxes of all classes are compared at once; only a class of which too many
    of those are covered is gone through to its end.
    """
    labels, n = scores.shape
    few = min(n, max(_FEW, limit + limit // 2) if limit <= _BLOCK else _FEW)
    order = first_indices(scores, few, largest=True)
    values = np.take_along_axis(scores, order, -1)
    counts = np.ones(order.shape, bool) if least is None else values > least
    found = []
    step = max(1, _PAIRS // max(1, few * few))
    for begin in range(0, labels, step):
        part = slice(begin, begin + step)
        best = np.moveaxis(boxes[:, order[part]], 0, 1)
        stays = _stays(_covers(best, best, overlap), counts[part])
        stays &= np.cumsum(stays, -1) <= limit
        done = (stays.sum(-1) >= limit) | ~counts[part].all(-1) | (few == n)
        for label in begin + np.flatnonzero(~done):
            stays[label - begin] = False
            above = np.arange(n) if least is None else np.flatnonzero(scores[label] > least)
            ranked = above[first_indices(scores[label][above], above.size, largest=True)]
            kept = ranked[_kept(boxes[:, ranked], limit, overlap)]
            found.append(np.stack([np.full(kept.size, label), kept], 1))
        row, place = np.nonzero(stays)
        found.append(np.stack([row + begin, order[part][row, place]], 1))
    pairs = np.concatenate(found) if found else np.zeros((0, 2), np.int64)
    return pairs[np.argsort(pairs[:, 0], kind="stable")]


def _non_max_suppression(node: Node, inputs: Inputs) -> list[Any]:
    """Boxes [B, n, 4] and scores [B, C, n] -> kept (batch, class, box) [k, 3]."""
    boxes, scores = inputs[0], inputs[1]
    limit, overlap, threshold = (
        None if optional(inputs, i) is None else np.asarray(inputs[i]).reshape(()).item() for i in (2, 3, 4)
    )
    least = None if threshold is None else np.float32(threshold)
    corners = _corners(boxes, bool(node.attr("center_point_box", 0)))
    found = [np.zeros((0, 3), np.int64)]
    for batch in range(len(scores)) if limit and limit > 0 and scores.size else ():
        pairs = _all_kept(corners[batch], scores[batch], least, limit, np.float32(overlap or 0.0))
        found.append(np.insert(pairs, 0, batch, axis=1))
    return [np.concatenate(found)]


OPS: dict[str, OpFunction] = {"NonMaxSuppression": _non_max_suppression}
