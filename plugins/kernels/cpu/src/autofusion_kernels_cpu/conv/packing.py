"""Packed weights of direct convolutions, kept for the session, and where the groups' begin in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.kernels import BindContext
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.conv.phases import phases
from autofusion_kernels_cpu.conv.problem import ConvProblem
from autofusion_kernels_cpu.conv.variant import Variant
from autofusion_kernels_cpu.conv.weights import (
    FilterGroup,
    aligned_concatenation,
    pack_blocked,
    pack_depthwise,
    pack_planar,
    padded_vector,
)
from autofusion_kernels_cpu.packed import packed


def packed_weights(
    context: BindContext, problem: ConvProblem, variant: Variant, groups: tuple[FilterGroup, ...]
) -> np.ndarray:
    """The weights of all groups and phases as the kernel reads them."""
    g, isa = problem.geometry, isa_of(context.target)
    # One array may be the weights of several layers, and pads and strides decide which taps a phase has.
    taps = tuple(tuple(tuple(k for k, _ in axis) for axis in phase.taps) for phase in phases(g)) if g.transposed else ()
    splits = tuple(group.vectors for group in groups)
    how = (isa.name, variant, splits, g.groups, g.leading, taps)
    make = partial(_packed, problem, variant, groups, isa.lanes)
    return packed(context.cache, "conv.weights", problem.weights, how, make)


def packed_bias(context: BindContext, bias: np.ndarray | None, blocks: int, lanes: int) -> np.ndarray:
    """The bias with zeros up to whole blocks, kept for the session."""
    return packed(context.cache, "conv.bias", bias, (blocks, lanes), partial(padded_vector, bias, blocks, lanes))


def _packed(problem: ConvProblem, variant: Variant, groups: Sequence[FilterGroup], lanes: int) -> np.ndarray:
    g, weights = problem.geometry, _filters_first(problem)
    if variant is Variant.DEPTHWISE:
        return pack_depthwise(weights[:, 0], len(groups), lanes)
    if variant is Variant.PLANAR:
        return pack_planar(weights.reshape(g.filters, g.channels, -1, g.axes[2].kernel), groups, lanes)
    if not g.transposed:
        return pack_blocked(weights, groups, lanes, g.group_filters)
    kernels = tuple(axis.kernel for axis in g.axes)
    parts = []
    for phase in phases(g):
        chosen = weights[:, :, phase.kernel_indices(kernels)]
        size = sum(f.vectors * lanes * (f.last - f.first) for f in groups) * phase.size
        parts.append(pack_blocked(chosen, groups, lanes, g.group_filters)[:size])
    return aligned_concatenation(parts, sum(part.size for part in parts))


def _filters_first(problem: ConvProblem) -> np.ndarray:
    """The weights as [filters, channels of a group, taps]."""
    g, weights = problem.geometry, problem.weights.astype(np.float32, copy=False)
    if not g.transposed:
        return weights.reshape(g.filters, g.group_channels, g.taps)
    grouped = weights.reshape(g.groups, g.group_channels, g.group_filters, g.taps)
    return grouped.transpose(0, 2, 1, 3).reshape(g.filters, g.group_channels, g.taps)
