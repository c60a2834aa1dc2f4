"""Convolution weights as the kernel reads them: [filter group][table entry][k][lanes of the group]."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_TINY = np.finfo(np.float32).tiny
_PIECE = 1 << 16
"""Elements that are looked at together: temporary arrays of all weights cost more than the arithmetic."""


@dataclass(frozen=True, slots=True)
class FilterGroup:
    """Output channel blocks that one tile computes together, and the input channels that they read.

    `block` is the first output block, `vectors` how many; input channels `first` to `last` (exclusive).
    """

    block: int
    vectors: int
    first: int
    last: int


@functools.lru_cache(1024)
def filter_groups(
    splits: tuple[int, ...], lanes: int, filters: int, group_channels: int, group_filters: int
) -> tuple[FilterGroup, ...]:
    """Filter groups of `splits` channel blocks each, with the input channels of every convolution group they touch."""
    made, block = [], 0
    for vectors in splits:
        first = block * lanes // group_filters
        last = (min((block + vectors) * lanes, filters) - 1) // group_filters
        made.append(FilterGroup(block, vectors, first * group_channels, (last + 1) * group_channels))
        block += vectors
    return tuple(made)


def channel_runs(group: FilterGroup, lanes: int) -> list[tuple[int, int]]:
    """The group's input channels as (first channel, count), cut where a channel block of the input ends."""
    runs, channel = [], group.first
    while channel < group.last:
        end = min((channel // lanes + 1) * lanes, group.last)
        runs.append((channel, end - channel))
        channel = end
    return runs


def dense(weights: np.ndarray, group: FilterGroup, lanes: int, group_filters: int) -> np.ndarray:
    """The group's weights [vectors * lanes, last - first, taps] with zeros where filter and channel are of different
    convolution groups (see `read`), and for filters past the last. `weights` is [filters, channels of a group, taps].
    """
    filters, per_group, taps = weights.shape
    start = group.block * lanes
    stop = min(start + group.vectors * lanes, filters)
    result = np.zeros((group.vectors * lanes, group.last - group.first, taps), np.float32)
    if group.last - group.first == per_group:
        result[: stop - start] = weights[start:stop]
        return result
    for f in range(start, stop):
        channel = f // group_filters * per_group - group.first
        result[f - start, channel : channel + per_group] = read(weights[f])
    return result


def read(weights: np.ndarray) -> np.ndarray:
    """Weights that a lane reads: their zeros are negative, since masked sums leave out positive ones."""
    return np.where(weights == 0, np.float32(-0.0), weights)


def pack_blocked(weights: np.ndarray, groups: Sequence[FilterGroup], lanes: int, group_filters: int) -> np.ndarray:
    """Packed weights for blocked input (entries: channel run, then tap; k: channels of the run)."""
    taps = weights.shape[2]
    size = sum(group.vectors * (group.last - group.first) for group in groups) * lanes * taps
    result = aligned_zeros(size)
    start = 0
    for group in groups:
        own = dense(weights, group, lanes, group_filters)
        width = len(own)
        for first, count, channels in _even_runs(group, lanes):
            part = own[:, first - group.first : first - group.first + count]
            stop = start + count * taps * width
            target = result[start:stop].reshape(count // channels, taps, channels, width)
            target[...] = part.reshape(width, count // channels, channels, taps).transpose(1, 3, 2, 0)
            start = stop
    flush_denormals(result)
    return result


@functools.lru_cache(1024)
def _even_runs(group: FilterGroup, lanes: int) -> tuple[tuple[int, int, int], ...]:
    """The runs of ``channel_runs``, neighbours of one length together: first channel, channels, channels of a run."""
    made = []
    for length, runs in itertools.groupby(channel_runs(group, lanes), key=lambda run: run[1]):
        own = list(runs)
        made.append((own[0][0], length * len(own), length))
    return tuple(made)


def pack_planar(weights: np.ndarray, groups: Sequence[FilterGroup], lanes: int) -> np.ndarray:
    """Packed weights for plain input (entries: channel and tap outside a row; k: taps of a row). `weights` is
    [filters, channels, taps outside, taps of a row]; one convolution group.
    """
    parts, size = [], 0
    for group in groups:
        start = group.block * lanes
        own = np.zeros((group.vectors * lanes, *weights.shape[1:]), np.float32)
        chosen = weights[start : start + group.vectors * lanes]
        own[: len(chosen)] = chosen
        parts.append(own.transpose(1, 2, 3, 0).ravel())
        size += parts[-1].size
    return aligned_concatenation(parts, size)


def pack_depthwise(weights: np.ndarray, blocks: int, lanes: int) -> np.ndarray:
    """Packed weights of a depthwise convolution (entries: taps; k: 1). `weights` is [channels, taps]."""
    channels, taps = weights.shape
    padded = aligned_zeros(blocks * taps * lanes)
    full = np.zeros((blocks * lanes, taps), np.float32)
    full[:channels] = weights
    padded[: blocks * taps * lanes] = full.reshape(blocks, lanes, taps).transpose(0, 2, 1).ravel()
    flush_denormals(padded)
    return padded


def aligned_concatenation(parts: Sequence[np.ndarray], size: int) -> np.ndarray:
    """The parts after each other in one array of float32 that starts on a cache line."""
    result = aligned_zeros(size)
    np.concatenate([*parts, np.zeros(0, np.float32)], out=result[:size] if size else np.zeros(0, np.float32))
    flush_denormals(result)
    return result


def flush_denormals(values: np.ndarray) -> None:
    """Replace denormal numbers by zero, in place.

    Weight decay leaves thousands of them in dead filters, and an FMA that meets one takes a hundred times as long. What
    they would have added to a sum is below the smallest normal number times the input.
    """
    magnitudes = np.empty(min(_PIECE, values.size), np.float32)
    for start in range(0, values.size, _PIECE):
        piece = values[start : start + _PIECE]
        magnitude = np.abs(piece, out=magnitudes[: piece.size])
        if magnitude.min() < _TINY:
            piece[(magnitude < _TINY) & (magnitude != 0)] = -0.0  # still a weight that is read


def aligned_zeros(count: int) -> np.ndarray:
    """`count` (at least one) float32 zeros that start on a cache line."""
    raw = np.zeros(max(count, 1) * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + max(count, 1) * 4].view(np.float32)


def padded_vector(values: np.ndarray | None, blocks: int, lanes: int) -> np.ndarray:
    """One number for each channel, with zeros up to whole blocks (None: all zero)."""
    result = aligned_zeros(blocks * lanes)
    if values is not None:
        result[: values.size] = values.ravel()
    flush_denormals(result)
    return result
