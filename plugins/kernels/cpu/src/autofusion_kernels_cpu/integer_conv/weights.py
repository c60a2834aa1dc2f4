"""Weights packed for the tile, the table of places that they multiply, and what makes up for the zero point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion_kernels_cpu.conv.weights import channel_runs, filter_groups
from autofusion_kernels_cpu.integer.form import Form
from autofusion_kernels_cpu.integer_conv.problem import IntegerConv
from autofusion_kernels_cpu.matmul.pack import aligned


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """``packed`` has, panel by panel, [groups, filters of the panel, elements of a group]. ``starts`` is where each
    panel begins in it, in bytes. ``sums`` is int32, one for each filter: the sum of its weights.
    ``places`` has, panel by panel, (tap, channel block, first lane) of each group; ``firsts`` and ``counts`` say which
    are a panel's.
    """

    packed: np.ndarray
    starts: np.ndarray
    sums: np.ndarray
    places: np.ndarray
    firsts: np.ndarray
    counts: np.ndarray


def pack_weights(cache: dict[Any, Any], problem: IntegerConv, form: Form, lanes: int, vectors: int) -> Weights:
    """The weights in the given form, kept in ``cache``."""
    g = problem.geometry
    key = (
        "integer_conv.weights",
        id(problem.source),
        problem.weights_zero.tobytes(),
        form,
        lanes,
        vectors,
        g.channels,
        g.groups,
    )
    if key not in cache:
        # The entry keeps the array, so that its id stays its own.
        cache[key] = (problem.source, _pack(problem, form, lanes, vectors))
    found: Weights = cache[key][1]
    return found


def _pack(problem: IntegerConv, form: Form, lanes: int, vectors: int) -> Weights:
    g, weights = problem.geometry, problem.weights
    filters, taps = weights.shape[0], weights.shape[2]
    blocks = -(-filters // lanes)
    splits = (vectors,) * -(-blocks // vectors)
    element = np.int8 if form is Form.BYTES else np.int16
    parts: list[np.ndarray] = []
    places: list[tuple[int, int, int]] = []
    counts: list[int] = []
    for group in filter_groups(splits, lanes, filters, g.group_channels, g.group_filters):
        first, last = group.block * lanes, min((group.block + vectors) * lanes, filters)
        own = np.zeros((vectors * lanes, group.last - group.first, taps), element)
        for index in range(first, last):
            channel = index // g.group_filters * g.group_channels - group.first
            own[index - first, channel : channel + g.group_channels] = weights[index]
        before = len(places)
        for channel, count in _aligned_runs(channel_runs(group, lanes), form.group):
            low, high = max(channel, group.first), min(channel + count, group.last)
            steps = -(-count // form.group)
            run = np.zeros((vectors * lanes, steps * form.group, taps), element)
            run[:, low - channel : high - channel] = own[:, low - group.first : high - group.first]
            # [filters, steps, group, taps] to [taps, steps, filters, group].
            parts.append(run.reshape(vectors * lanes, steps, form.group, taps).transpose(3, 1, 0, 2).ravel())
            block, lane = divmod(channel, lanes)
            places += [(t, block, lane + s * form.group) for t in range(taps) for s in range(steps)]
        counts.append(len(places) - before)
    sums = np.zeros(blocks * lanes + vectors * lanes, np.int32)
    sums[:filters] = weights.sum(axis=(1, 2), dtype=np.int32)
    ends = np.cumsum(counts)
    firsts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    panel_bytes = vectors * lanes * form.group * np.dtype(element).itemsize
    return Weights(
        aligned(np.concatenate(parts)),
        firsts * panel_bytes,
        aligned(sums),
        np.array(places, np.int64).reshape(-1, 3),
        firsts,
        np.array(counts, np.int64),
    )


def _aligned_runs(runs: Sequence[tuple[int, int]], group: int) -> list[tuple[int, int]]:
    """Runs of channels that begin with a whole group of the block that they are in."""
    return [(channel - channel % group, count + channel % group) for channel, count in runs]
