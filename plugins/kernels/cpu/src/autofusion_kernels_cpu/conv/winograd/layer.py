"""The parameters of a Winograd convolution: a function from sizes and strides, as `conv.steps` for direct ones."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.epilogue import OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.memory import Strided
from autofusion_kernels_cpu.conv.products import LINE, entries_summed
from autofusion_kernels_cpu.conv.tiles import cover
from autofusion_kernels_cpu.conv.winograd.kernel import Structure
from autofusion_kernels_cpu.conv.winograd.schedule import Plan, shares, side_tiles, tile_count


@dataclass(frozen=True, slots=True, eq=False)
class LayerData:
    """Parameters by name, and the data behind them."""

    params: dict[str, int]
    data: np.ndarray


@dataclass(frozen=True)
class Scratch:
    """A thread's memory for transformed blocks, in floats: V[plane][channel block][tile], M[plane][vector][tile]."""

    input_blocks: int
    v_block: int
    v_plane: int
    m_plane: int
    m_start: int
    floats: int


def scratch_of(geometry: Geometry, plan: Plan, lanes: int) -> Scratch:
    """Where the blocks of a thread lie."""
    input_blocks, v_block = -(-geometry.channels // lanes), plan.block * lanes
    # Neighbouring planes an odd number of cache lines apart fall into different sets of the cache.
    v_plane = _odd_lines(input_blocks * v_block)
    m_plane = _odd_lines(max(plan.splits) * v_block)
    planes = (plan.tile + 2) ** 2
    return Scratch(input_blocks, v_block, v_plane, m_plane, planes * v_plane, planes * (v_plane + m_plane))


def _odd_lines(floats: int) -> int:
    """At least as many floats, in an odd number of cache lines."""
    return (-(-floats // LINE) | 1) * LINE


@dataclass(frozen=True)
class Layer:
    """All that the parameters depend on."""

    geometry: Geometry
    plan: Plan
    x: Strided
    y: Strided
    operands: tuple[Strided, ...]
    kinds: tuple[OperandKind, ...]
    target: Target

    @cached_property
    def isa(self) -> Isa:
        """The instruction set of the target."""
        return isa_of(self.target)

    @cached_property
    def structure(self) -> Structure:
        """The code."""
        return Structure(self.isa, self.plan.tile, tuple(dict.fromkeys(self.plan.splits)))

    def data(self) -> LayerData:
        """Parameters, then (begin, end) of each thread's tasks, tasks, the products' table and the tiles."""
        g, plan, lanes, threads = self.geometry, self.plan, self.isa.lanes, self.target.threads
        scratch = scratch_of(g, plan, lanes)
        table, tiles = self._table(scratch), self._tiles()
        tasks, cuts = self._tasks()
        base = 2 * threads
        table_at, tiles_at = base + tasks.size, base + tasks.size + table.size
        params = {
            "input_row": self.x.height,
            "input_block": self.x.block,
            "channel_blocks": scratch.input_blocks,
            "v_block": scratch.v_block,
            "v_plane": scratch.v_plane,
            "m_block": scratch.v_block,
            "m_plane": scratch.m_plane,
            "thread_scratch": scratch.floats,
            "m_start": scratch.m_start,
            "entries": len(table),
            "block": entries_summed(table),
            "table": table_at,
            "tiles": tiles_at,
            "output_row": self.y.height,
            "output_block": self.y.block,
        }
        for i, operand in enumerate(self.operands):
            params[f"operand{i}.block"], params[f"operand{i}.row"] = operand.block, operand.height
        for vectors in self.structure.vectors:
            params[f"weights_plane{vectors}"] = g.channels * vectors * lanes
            # Spread over the tiles that pass over a plane: bytes for each of their k.
            params[f"prefetch{vectors}"] = round(4 * vectors * lanes / cover(self.isa, vectors, plan.block).tiles)
        shares = np.full((threads, 2), base, np.int64)
        edges = base + np.array(cuts, np.int64) * (tasks.size // max(cuts[-1], 1))
        shares[: len(cuts) - 1, 0], shares[: len(cuts) - 1, 1] = edges[:-1], edges[1:]
        return LayerData(params, np.concatenate([shares.ravel(), tasks, table.ravel(), tiles.ravel()]))

    def _table(self, scratch: Scratch) -> np.ndarray:
        """Channel blocks of V and how many channels each has."""
        block = np.arange(scratch.input_blocks)
        count = np.minimum(self.isa.lanes, self.geometry.channels - block * self.isa.lanes)
        return np.stack([block * scratch.v_block, count], axis=1)

    def _tiles(self) -> np.ndarray:
        """Every tile: where it reads and writes, and how much of it is inside the result."""
        g, size = self.geometry, self.plan.tile
        _, height, width = g.axes
        counts = (g.batch, g.axes[0].out, *side_tiles(g, size))
        image, depth, row, column = np.indices(counts).reshape(4, -1)

        def offsets(s: Strided, low: tuple[int, int] = (0, 0)) -> np.ndarray:
            y, x = row * size - low[0], column * size - low[1]
            return image * s.image + depth * s.depth + y * s.height + x * s.width

        fields = [
            offsets(self.x, (height.low, width.low)),
            offsets(self.y),
            np.minimum(height.out - row * size, size),
            np.minimum(width.out - column * size, size),
        ]
        for own, kind in zip(self.operands, self.kinds, strict=True):
            fields.append(offsets(own) if kind is OperandKind.TENSOR else image * own.image)
        return np.stack(fields, axis=1).astype(np.int64)

    def _tasks(self) -> tuple[np.ndarray, list[int]]:
        """Tasks of all working threads, and where each thread's begin and end."""
        plan = self.plan
        total = tile_count(self.geometry, plan.tile)
        made: list[int] = []
        cuts, count = [0], 0
        for t in range(plan.tile_threads):
            first, last = total * t // plan.tile_threads, total * (t + 1) // plan.tile_threads
            rounds = -(-(last - first) // plan.block)
            edges = [first + (last - first) * i // rounds for i in range(rounds + 1)] if rounds else []
            for groups in self._groups():
                for a, b in itertools.pairwise(edges):
                    made += [a, b - a]
                    for vectors, fields in groups.items():
                        made += [*fields, *self._cover(vectors, b - a)]
                    count += 1
                cuts.append(count)
        return np.array(made, np.int64), cuts

    def _groups(self) -> list[dict[int, tuple[int, int, int]]]:
        """For each part of the output channels, and each size of group: how many, the first's block and weights."""
        per_block = self.structure.side**2 * self.geometry.channels * self.isa.lanes
        made, block = [], 0
        for share in shares(self.plan.splits, self.plan.filter_threads):
            fields = dict.fromkeys(self.structure.vectors, (0, 0, 0))
            for vectors in dict.fromkeys(share):
                count = share.count(vectors)
                fields[vectors] = (count, block, block * per_block)
                block += count * vectors
            made.append(fields)
        return made

    def _cover(self, vectors: int, tiles: int) -> list[int]:
        """(start, count) for each width of register tile."""
        made, start = [], 0
        for width, count in zip(self.structure.widths(vectors), cover(self.isa, vectors, tiles).counts, strict=True):
            made += [start, count]
            start += count * width
        return made
