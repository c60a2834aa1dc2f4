"""Register tiles: how many channel blocks and pixels one pass holds in registers, and how tiles cover a row.

A tile of `width` pixels and `vectors` channel blocks needs `width * vectors` accumulators, `vectors` weights and one
broadcast; one register too many costs half the speed. The widths are a fixed few for each number of vectors, so that
any row length is covered by code that exists already.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from autofusion_kernels_cpu.codegen.isa import Isa

# Two FMAs and two loads a cycle, four cycles from an FMA to the next on the same accumulator.
_ISSUE, _LATENCY = 2, 4
# Cycles for each table entry beyond its FMAs, as a fraction of a k step: keeps narrow tiles from being free.
_OVERHEAD = 0.25
# Cycles of a depthwise tile's row of taps beyond its FMAs.
_ROW_OVERHEAD = 4.0
_WIDE = 8
"""Channel blocks of the tile for very short rows, where weights are used once or twice."""


@functools.cache
def widths(isa: Isa, vectors: int, depthwise: int = 0) -> tuple[int, ...]:
    """Tile widths that fit the registers, widest first; empty if none does. There is always a width of one.

    `depthwise` is the number of taps that a depthwise tile holds in registers (with one vector), 0 for other tiles.
    """
    if depthwise:
        most = isa.registers - depthwise - 2
    elif vectors == _WIDE:
        # With one pixel the weights need no registers: each is an operand of its only FMA.
        return (2, 1) if isa.registers >= 3 * _WIDE + 1 else (1,)
    else:
        most = (isa.registers - 1 - vectors) // vectors
    if most < 2 or vectors > _WIDE:
        return ()
    # About 3/4 and 1/2 of the widest cover most lengths with little left over.
    most = min(most, 20)
    chosen = {most, round(most * 0.86), round(most * 0.7), round(most * 0.5), round(most * 0.29), 1}
    return tuple(sorted((w for w in chosen if w >= 1), reverse=True))


def cycles(isa: Isa, vectors: int, width: int, depthwise: int = 0) -> float:
    """Cycles of one k step of a tile (a row of taps of a depthwise tile), with all data in the first-level cache."""
    if depthwise:
        return max(width * depthwise / _ISSUE, _LATENCY) + _ROW_OVERHEAD
    fmas = width * vectors
    loads = vectors + width
    return max(fmas / _ISSUE, loads / _ISSUE, _LATENCY) + _OVERHEAD


@dataclass(frozen=True, slots=True)
class Cover:
    """Tiles that cover a row: `counts` of each width, `tiles` in all, and the cycles of one k step of all of them."""

    counts: tuple[int, ...]
    cycles: float
    tiles: int


@functools.lru_cache(4096)
def cover(isa: Isa, vectors: int, pixels: int, depthwise: int = 0) -> Cover:
    """The cheapest tiles for a row of `pixels`; the last may overlap the one before it."""
    number, widest, each, best = _lengths(isa, vectors, min(pixels, widths(isa, vectors, depthwise)[0]), depthwise)
    # Whole tiles of the widest kind first: the rest is small enough for a table of all lengths.
    bulk = max(0, pixels // widest - 3)
    rest = best[pixels - bulk * widest]
    if not bulk:
        return rest
    counts = list(rest.counts)
    counts[number] += bulk
    return Cover(tuple(counts), bulk * each + rest.cycles, rest.tiles + bulk)


@functools.cache
def _lengths(isa: Isa, vectors: int, most: int, depthwise: int) -> tuple[int, int, float, list[Cover]]:
    """The widest tile of at most ``most`` pixels (its number among all, its width and its cycles), and the cheapest
    tiles for each length of a row below four of it.
    """
    every = widths(isa, vectors, depthwise)
    available = [w for w in every if w <= most]
    cost = {w: cycles(isa, vectors, w, depthwise) for w in available}
    best = [Cover((0,) * len(every), 0.0, 0)]
    for length in range(1, 4 * available[0]):
        total, width = min((best[max(length - w, 0)].cycles + cost[w], w) for w in available)
        before = best[max(length - width, 0)]
        counts = tuple([count + (w == width) for w, count in zip(every, before.counts, strict=True)])
        best.append(Cover(counts, total, before.tiles + 1))
    return every.index(available[0]), available[0], cost[available[0]], best


@functools.lru_cache(4096)
def channel_groups(isa: Isa, blocks: int, pixels: int) -> tuple[int, ...]:
    """How many channel blocks each group of output channels has, so that rows of `pixels` take the fewest cycles.

    The groups follow each other; equal ones are neighbours. One number of vectors is one kernel, so a second one must
    pay.
    """
    choices = [v for v in (1, 2, 3, 4, 5, 6, _WIDE) if v <= blocks and widths(isa, v)]
    if pixels > 2:
        choices = [v for v in choices if v != _WIDE] or choices
    cost = np.array([cover(isa, v, pixels).cycles for v in choices])
    splits, counts, factors = _splits(blocks, tuple(choices))
    prices = counts @ cost * factors
    return splits[int(np.argmax(prices <= prices.min() + 1e-9))]


@functools.lru_cache(256)
def _splits(blocks: int, choices: tuple[int, ...]) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """Every split into groups of one size or two, how many of each of `choices` it has, and by what it must pay."""
    found: dict[tuple[int, ...], float] = {}
    for main, other in itertools.product(choices, choices):
        for rest in range(0, blocks // other + 1):
            left = blocks - rest * other
            if left % main == 0 and not (rest and other == main):
                found.setdefault((main,) * (left // main) + (other,) * rest, 1.02 if rest else 1.0)
    counts = [[split.count(v) for v in choices] for split in found]
    return list(found), np.array(counts, np.float64), np.array(list(found.values()))
