"""How a Winograd convolution is cut for threads and caches, and what it costs.

A thread has some of the tiles and some of the groups of output channels. Splitting tiles reads all weights in every
thread, splitting channels transforms the input in every thread: the cheapest mixture is taken. A thread's tiles go in
blocks, as large as its transformed inputs and one group's products may be for the second-level cache: each block reads
the thread's weights once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.schedule import seconds, useful_threads
from autofusion_kernels_cpu.conv.tiles import channel_groups, cover

# Cycles to transform a tile of one channel block: (input, output), data in the second-level cache.
_TRANSFORM_CYCLES = {2: (85.0, 50.0), 4: (190.0, 120.0)}
# Shares of the second-level cache for a block's transformed data: up to the first it stays there while weights and
# tensors pass, more than the second is never tried.
_CACHE_SHARE, _MOST_CACHE = 0.3, 0.6
_MOST_TILES = 256
_USUAL_TILES = 56


@dataclass(frozen=True, slots=True)
class Plan:
    """`tile_threads` times `filter_threads` threads work on blocks of at most `block` tiles.

    `splits` are the groups of output channel blocks. `seconds` is the expected time.
    """

    tile: int
    tile_threads: int
    filter_threads: int
    block: int
    splits: tuple[int, ...]
    seconds: float


def side_tiles(geometry: Geometry, tile: int) -> tuple[int, int]:
    """Tiles along height and width."""
    return -(-geometry.axes[1].out // tile), -(-geometry.axes[2].out // tile)


def tile_count(geometry: Geometry, tile: int) -> int:
    """Tiles of all images and depths."""
    height, width = side_tiles(geometry, tile)
    return geometry.batch * geometry.axes[0].out * height * width


def weight_bytes(geometry: Geometry, tile: int, lanes: int) -> int:
    """Bytes of the transformed weights."""
    return 4 * (tile + 2) ** 2 * geometry.channels * -(-geometry.filters // lanes) * lanes


@functools.lru_cache(1024)
def plan(geometry: Geometry, tile: int, tensors: int, target: Target) -> Plan:
    """The fastest cut for the target's threads; `tensors` are the bytes of operands and result."""
    alone = _priced(geometry, tile, tensors, target, 1, 1)
    most = useful_threads(target, alone.seconds)
    choices = [
        _priced(geometry, tile, tensors, target, tiles, workers // tiles)
        for workers in range(2, most + 1)
        for tiles in range(1, workers + 1)
        if workers % tiles == 0
    ]
    return min([alone, *choices], key=lambda choice: choice.seconds)


def _priced(
    geometry: Geometry, tile: int, tensors: int, target: Target, tile_threads: int, filter_threads: int
) -> Plan:
    """The best block size for this split."""
    isa, lanes, workers = isa_of(target), target.lanes, tile_threads * filter_threads
    planes = (tile + 2) ** 2
    mine = -(-tile_count(geometry, tile) // tile_threads)
    blocks = -(-geometry.filters // lanes)
    input_blocks = -(-geometry.channels // lanes)
    into, back = _TRANSFORM_CYCLES[tile]
    weights = weight_bytes(geometry, tile, lanes)
    # The same for all sizes of image: the weights are laid out by it.
    splits = channel_groups(isa, blocks, _USUAL_TILES)
    share = max(shares(splits, filter_threads), key=sum)
    best: Plan | None = None
    for count in _block_sizes(mine, planes * input_blocks * lanes * 4, target):
        rounds = -(-mine // count)
        # A table entry costs about two loads of latency beside its k steps.
        products = sum(cover(isa, v, count).cycles * (geometry.channels + 2 * input_blocks / v) for v in share)
        cycles = rounds * (planes * products + count * (into * input_blocks + back * sum(share)))
        # Every thread reads its weights for each of its blocks.
        reread = weights * (rounds * tile_threads - 1)
        price = seconds(target, cycles, weights, reread, tensors, workers)
        transformed = 4 * lanes * planes * count * input_blocks
        if transformed + 4 * lanes * planes * count * max(share) > _CACHE_SHARE * target.l2_bytes:
            # It is written to the next level and read back.
            price += rounds * 2 * transformed / target.bandwidth_l3
        if best is None or price < best.seconds:
            best = Plan(tile, tile_threads, filter_threads, count, splits, price)
    assert best is not None
    return best


def _block_sizes(tiles: int, bytes_per_tile: int, target: Target) -> Iterator[int]:
    """Sizes of blocks that cut `tiles` evenly and fit the cache, largest first."""
    most = int(target.l2_bytes * _MOST_CACHE) // bytes_per_tile
    most = max(1, min(most, tiles, _MOST_TILES))
    rounds = -(-tiles // most)
    yield from dict.fromkeys(-(-tiles // r) for r in range(rounds, 4 * rounds + 4))


def shares(splits: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """The groups of each part of the output channels."""
    cuts = [len(splits) * i // parts for i in range(parts + 1)]
    return [splits[a:b] for a, b in itertools.pairwise(cuts)]
