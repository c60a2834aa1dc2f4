"""Col2Im: overlapping blocks added back into an image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.convolution import per_axis, tap_view, taps
from autofusion_kernels_reference.movement import pad
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, wide


def _col2im(node: Node, inputs: Inputs) -> list[Any]:
    """Columns [N, C * prod(block), L], image shape and block shape -> [N, C, *image]; one addition for each tap."""
    x, image, block = inputs[0], integers(inputs[1]), integers(inputs[2])
    rank = len(image)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    pads = [int(p) for p in node.attr("pads") or [0] * 2 * rank]
    padded = [n + pads[i] + pads[i + rank] for i, n in enumerate(image)]
    places = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(padded, block, strides, dilations, strict=True)]
    n, rows, count = x.shape
    channels = rows // math.prod(block)
    if channels * math.prod(block) != rows or count != math.prod(places):
        raise ValueError(
            f"columns {list(x.shape)} do not fit blocks of {block} at {math.prod(places)} places of image {image}"
        )
    columns = wide(x).reshape(n, channels, *block, *places)
    y = np.zeros((n, channels, *padded), columns.dtype)
    for tap in taps(block):
        tap_view(y, tap, places, strides, dilations)[...] += columns[(slice(None), slice(None), *tap)]
    y = pad(y, [0, 0, *(-p for p in pads[:rank])], [0, 0, *(-p for p in pads[rank:])])
    return [y.astype(x.dtype)]


OPS: dict[str, OpFunction] = {"Col2Im": _col2im}
