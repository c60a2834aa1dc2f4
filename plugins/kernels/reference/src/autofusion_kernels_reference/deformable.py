"""Deformable convolution: every kernel tap reads where an offset, computed by the network, moves it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.convolution import per_axis
from autofusion_kernels_reference.sampling import sample
from autofusion_kernels_reference.sampling import taps as sampling_taps
from autofusion_kernels_reference.support import Inputs, OpFunction, optional, wide


def _deform_conv(node: Node, inputs: Inputs) -> list[Any]:
    """X [N, C, *size], W [M, C / group, *kernel], offset [N, G * K * rank, *out], B [M], mask [N, G * K, *out].

    Linear taps, zero outside. The result is [N, M, *out].
    """
    x, w, offset, bias, mask = (optional(inputs, i) for i in range(5))
    (n, c, *size), (m, per_group, *kernel) = x.shape, w.shape
    rank, out = len(size), offset.shape[2:]
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    pads = [int(p) for p in node.attr("pads") or [0] * 2 * rank]
    groups, offset_groups = node.attr("group", 1), node.attr("offset_group", 1)
    if c != per_group * groups or c % offset_groups:
        raise ValueError(f"{c} channels do not fit {groups} groups of {per_group} and {offset_groups} offset groups")
    count, points = math.prod(kernel), math.prod(out)
    moved = wide(offset).reshape(n * offset_groups, count, rank, *out)
    axes = []
    for axis, (length, k, s, d) in enumerate(zip(size, kernel, strides, dilations, strict=True)):
        start = np.arange(out[axis]) * s - pads[axis]
        start = start.reshape([-1 if a == axis else 1 for a in range(rank)])
        step = np.broadcast_to((np.arange(k) * d).reshape([-1 if a == axis else 1 for a in range(rank)]), kernel)
        at = moved[:, :, axis] + step.reshape(count, *[1] * rank) + start
        axes.append(sampling_taps(at.reshape(n * offset_groups, count * points), length, "linear", "zeros"))
    channels = c // offset_groups
    columns = sample(x.reshape(n * offset_groups, channels, *size), axes).reshape(n, offset_groups, -1, channels)
    if mask is not None:
        columns *= wide(mask).reshape(n, offset_groups, count * points, 1)
    # [N, channels, taps, points], then a product for each group of channels.
    columns = np.moveaxis(columns, 3, 2).reshape(n, groups, per_group * count, points)
    y = np.matmul(wide(w).reshape(groups, m // groups, per_group * count), columns).reshape(n, m, *out)
    return [(y if bias is None else y + wide(bias).reshape(-1, *[1] * rank)).astype(x.dtype)]


OPS: dict[str, OpFunction] = {"DeformConv": _deform_conv}
