"""The filter groups of a layer: what does not depend on the sizes of its images, made once for all of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.phases import phases
from autofusion_kernels_cpu.conv.variant import Variant, splits_of, taps_together
from autofusion_kernels_cpu.conv.weights import FilterGroup, channel_runs, filter_groups


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The groups of `vectors` channel blocks. With `joined` phases, each group comes once for each phase.

    `block` [n] is a group's first channel block; `weights` [n, phases] where its weights begin (in floats), `table`
    [n, phases] the number of its table: those of `readers`, one for each phase, then the next reader's. A reader's
    input channels are runs of neighbours: `runs` has (channel block, first lane, channels) [runs, 3] of each.
    `templates` belongs to `conv.tasks`.
    """

    vectors: int
    block: np.ndarray
    weights: np.ndarray
    table: np.ndarray
    readers: tuple[FilterGroup, ...]
    runs: tuple[np.ndarray, ...]
    channels: int
    masked: bool
    templates: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)
    _summed: list[int] = field(default_factory=list)

    def summed(self, tables: Sequence[np.ndarray]) -> int:
        """Products in the longest sum of a group, whose tables differ from layer to layer in offsets only."""
        if not self._summed:
            self._summed.append(max(int(table[:, 1].sum()) for table in tables))
        return self._summed[0]


@dataclass(frozen=True, slots=True, eq=False)
class Groupings:
    """All groups in the order of the packed weights, and those of each size."""

    filters: tuple[FilterGroup, ...]
    sizes: tuple[Grouping, ...]


def groupings(isa: Isa, geometry: Geometry, variant: Variant, pixels: int, joined: bool) -> Groupings:
    """The groups for rows of `pixels`."""
    splits = splits_of(isa, geometry, variant, pixels)
    sizes = tuple(phase.size for phase in phases(geometry))
    g = geometry
    channels = (g.filters, g.group_channels, g.group_filters)
    return _groupings(variant, splits, isa.lanes, *channels, sizes, taps_together(g, variant), joined)


@functools.lru_cache(512)
def _groupings(
    variant: Variant,
    splits: tuple[int, ...],
    lanes: int,
    filters: int,
    group_channels: int,
    group_filters: int,
    phase_sizes: tuple[int, ...],
    together: int,
    joined: bool,
) -> Groupings:
    """The groups for `splits`; `together` only tells layers apart whose tables are of other shapes."""
    groups = filter_groups(splits, lanes, filters, group_channels, group_filters)
    depthwise = variant is Variant.DEPTHWISE
    floats = [f.vectors * lanes * (1 if depthwise else f.last - f.first) for f in groups]
    # Weights: phase by phase, all groups of each.
    each = np.array(phase_sizes, np.int64)[:, None] * np.array(floats, np.int64)
    starts = (np.cumsum(each) - each.ravel()).reshape(each.shape).T
    count, made = len(phase_sizes), []
    for vectors in dict.fromkeys(splits):
        chosen = [i for i, f in enumerate(groups) if f.vectors == vectors]
        # Groups that read the same channels share their tables; depthwise ones only differ in where they start.
        keys = [(0, 0) if depthwise else (groups[i].first, groups[i].last) for i in chosen]
        readers = {key: groups[i] for key, i in zip(keys, chosen, strict=True)}
        numbers = {key: n * count for n, key in enumerate(readers)}
        table = np.array([numbers[key] for key in keys], np.int64)[:, None] + np.arange(count)
        block, weights = np.array([groups[i].block for i in chosen], np.int64), starts[chosen]
        if joined and count > 1:
            block, weights, table = np.repeat(block, count), weights.reshape(-1, 1), table.reshape(-1, 1)
        runs = [np.array(channel_runs(f, lanes), np.int64) for f in readers.values()]
        places = [np.stack([r[:, 0] // lanes, r[:, 0] % lanes, r[:, 1]], axis=1) for r in runs]
        channels = max(f.last - f.first for f in readers.values())
        masked = not depthwise and channels > group_channels
        made.append(Grouping(vectors, block, weights, table, tuple(readers.values()), tuple(places), channels, masked))
    return Groupings(groups, tuple(made))
