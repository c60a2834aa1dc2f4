"""Which elements of its columns a pixel of Col2Im is the sum of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Node


def column_table(node: Node, image: Sequence[int], block: Sequence[int]) -> np.ndarray | None:
    """Indices int32 [taps, pixels] into the elements [prod(block), places] of a channel, -1 for none.

    None where the number of places does not fit the operand.
    """
    rank = len(image)
    strides = [int(s) for s in node.attr("strides") or [1] * rank]
    dilations = [int(d) for d in node.attr("dilations") or [1] * rank]
    pads = [int(p) for p in node.attr("pads") or [0] * 2 * rank]
    places = []
    for i, (size, k, s, d) in enumerate(zip(image, block, strides, dilations, strict=True)):
        places.append((size + pads[i] + pads[i + rank] - (k - 1) * d - 1) // s + 1)
    operand = node.inputs[0]
    if operand is None or min(places) < 1 or operand.tensor.static_shape[2] != math.prod(places):
        return None
    # Along one axis: the place that kernel position k reaches a pixel from, -1 where there is none.
    axes = []
    for i, (size, k, s, d) in enumerate(zip(image, block, strides, dilations, strict=True)):
        start = np.arange(size) + pads[i] - np.arange(k)[:, None] * d
        place = start // s
        axes.append(np.where((start % s == 0) & (place >= 0) & (place < places[i]), place, -1))
    index = np.zeros((1, 1), np.int64)
    for place, count in zip(axes, places, strict=True):
        joined = index[:, None, :, None] * count + place[None, :, None, :]
        index = np.where((index[:, None, :, None] < 0) | (place[None, :, None, :] < 0), -1, joined)
        index = index.reshape(index.shape[0] * index.shape[1], -1)
    taps = np.arange(len(index))[:, None] * math.prod(places)
    table = np.where(index < 0, -1, taps + index).astype(np.int32)
    # A tap of a stride reaches few pixels: those of a pixel are moved together.
    order = np.argsort(table < 0, axis=0, kind="stable")
    table = np.take_along_axis(table, order, 0)
    return np.ascontiguousarray(table[: max(1, int((table >= 0).sum(0).max(initial=0)))])
