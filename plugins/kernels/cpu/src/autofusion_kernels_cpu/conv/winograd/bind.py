"""Binds a Winograd convolution to views: weights, the table of tiles, the tasks of every thread."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.kernels import BindContext, NotFinite, Target, TensorView
from autofusion_kernels_cpu.codegen.epilogue import OperandKind
from autofusion_kernels_cpu.codegen.isa import host_isa
from autofusion_kernels_cpu.conv.anchored import Anchored, BoundOperand, Strided, bind_epilogue, strided
from autofusion_kernels_cpu.conv.geometry import AXES, Geometry
from autofusion_kernels_cpu.conv.products import LINE, entries_summed
from autofusion_kernels_cpu.conv.tiles import cover
from autofusion_kernels_cpu.conv.weights import aligned_zeros, flush_denormals, padded_vector
from autofusion_kernels_cpu.conv.winograd import kernel as code
from autofusion_kernels_cpu.conv.winograd.kernel import Structure
from autofusion_kernels_cpu.conv.winograd.plan import Plan, shares, side_tiles, tile_count
from autofusion_kernels_cpu.conv.winograd.transforms import TAPS, transforms
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref

# Columns of a matrix product that is too small for NumPy to wake threads for, which costs more than the product.
_PIECE = 1024


def applies(geometry: Geometry) -> bool:
    """True for 3x3 convolutions with stride 1, neither dilated nor grouped, of every image and depth on its own."""
    depth, *plane = geometry.axes
    flat = depth.kernel == 1 and depth.stride == 1 and depth.low == 0 and depth.out == depth.size
    square = all(a.kernel == TAPS and a.stride == 1 and a.dilation == 1 for a in plane)
    return geometry.rank >= 2 and not geometry.transposed and geometry.groups == 1 and flat and square


def border(geometry: Geometry, tile: int) -> tuple[int, ...]:
    """Zeros that whole tiles read around the input, over the node's axes in the order of pads."""
    own = geometry.axes[AXES - geometry.rank :]
    high = [0] * (geometry.rank - 2)
    for axis in own[-2:]:
        high.append(max(-(-axis.out // tile) * tile + TAPS - 1 - axis.low - axis.size, 0))
    return tuple(max(a.low, 0) for a in own) + tuple(high)


class Winograd:
    """Binds one convolution to views as `plan` says."""

    def __init__(self, parts: Anchored, plan: Plan, target: Target) -> None:
        self.parts, self.plan = parts, plan
        self.isa, self.threads = host_isa(target.isa), target.threads
        self.lanes = self.isa.lanes
        self.structure = Structure(self.isa, plan.tile, tuple(dict.fromkeys(plan.splits)))
        self.input_blocks = -(-parts.geometry.channels // self.lanes)
        # Neighbouring planes an odd number of cache lines apart fall into different sets of the cache.
        self.v_block = plan.block * self.lanes
        self.v_plane = _odd_lines(self.input_blocks * self.v_block)
        self.m_plane = _odd_lines(max(plan.splits) * self.v_block)
        self.m_start = self.structure.side**2 * self.v_plane
        self.thread_floats = self.m_start + self.structure.side**2 * self.m_plane

    @property
    def scratch_bytes(self) -> int:
        """Memory for the transformed blocks of all threads."""
        return 4 * self.thread_floats * self.plan.tile_threads * self.plan.filter_threads

    def __call__(
        self, context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]
    ) -> NativeKernel:
        x, y, g = inputs[self.parts.operand], outputs[0], self.parts.geometry
        assert x is not None and context.scratch is not None
        blocks = sum(self.plan.splits)
        operands = bind_epilogue(self.parts.epilogue, inputs, blocks, self.lanes, y.shape)
        bias = padded_vector(self.parts.bias, blocks, self.lanes)
        seen = aligned_zeros(self.threads * self.lanes)
        refs = (Ref(x), Ref(self._weights(context)), Ref(bias), Ref(y), Ref(context.scratch), Ref(seen))
        function = code.kernel(self.structure, self.parts.epilogue)
        step = NativeStep(
            function,
            (*refs, *(o.ref for o in operands)),
            self._parameters(strided(x), strided(y), operands),
            name=f"conv.winograd{self.plan.tile}",
            workers=self.plan.tile_threads * self.plan.filter_threads,
        )
        assert g.filters <= blocks * self.lanes
        return NativeKernel((step,), partial(_check, seen))

    # --- weights ------------------------------------------------------------------------------------------------------
    def _weights(self, context: BindContext) -> np.ndarray:
        """Transformed weights [group][plane][channel][lanes of the group], kept for the session."""
        weights = self.parts.weights
        key = ("conv.winograd", id(weights), self.isa.name, self.plan.tile, self.plan.splits)
        entry = context.cache.get(key)
        if entry is None:
            entry = (weights, self._transformed(weights))
            context.cache[key] = entry
        transformed: np.ndarray = entry[1]
        return transformed

    def _transformed(self, weights: np.ndarray) -> np.ndarray:
        g = transforms(self.plan.tile).filter
        both = np.kron(g, g)
        filters, channels = weights.shape[:2]
        taps = weights.reshape(filters, channels, TAPS * TAPS)
        result = aligned_zeros(len(both) * channels * sum(self.plan.splits) * self.lanes)
        start = first = 0
        for vectors in self.plan.splits:
            width = vectors * self.lanes
            own = taps[first : first + width]
            padded = np.zeros((TAPS * TAPS, channels, width))
            padded[:, :, : len(own)] = own.transpose(2, 1, 0)
            columns = padded.reshape(TAPS * TAPS, -1)
            size = len(both) * channels * width
            made = result[start : start + size].reshape(len(both), -1)
            for x in range(0, channels * width, _PIECE):
                made[:, x : x + _PIECE] = both @ columns[:, x : x + _PIECE]
            start, first = start + size, first + width
        flush_denormals(result)
        return result

    # --- tables -------------------------------------------------------------------------------------------------------
    def _parameters(self, xs: Strided, ys: Strided, operands: Sequence[BoundOperand]) -> np.ndarray:
        epilogue, lanes = self.parts.epilogue, self.lanes
        table = self._table()
        tiles = self._tiles(xs, ys, operands)
        tasks, cuts = self._tasks()
        base = len(code.names(self.structure, epilogue)) + 2 * self.threads
        begin = base
        table_at, tiles_at = base + tasks.size, base + tasks.size + table.size
        header = {
            "input_row": xs.height,
            "input_block": xs.block,
            "channel_blocks": self.input_blocks,
            "v_block": self.v_block,
            "v_plane": self.v_plane,
            "m_block": self.v_block,
            "m_plane": self.m_plane,
            "thread_scratch": self.thread_floats,
            "m_start": self.m_start,
            "entries": len(table),
            "block": entries_summed(table),
            "table": table_at,
            "tiles": tiles_at,
            "output_row": ys.height,
            "output_block": ys.block,
        }
        for i, operand in enumerate(operands):
            header[f"operand{i}.block"], header[f"operand{i}.row"] = operand.strides.block, operand.strides.height
        for vectors in self.structure.vectors:
            plane = self.parts.geometry.channels * vectors * lanes
            header[f"weights_plane{vectors}"] = plane
            # Spread over the tiles that pass over a plane: bytes for each of their k.
            header[f"prefetch{vectors}"] = round(4 * vectors * lanes / cover(self.isa, vectors, self.plan.block).tiles)
        size = code.task_size(self.structure)
        spans = [(begin + a * size, begin + b * size) for a, b in itertools.pairwise(cuts)]
        spans += [(begin, begin)] * (self.threads - len(spans))
        ordered = [header[name] for name in code.names(self.structure, epilogue)]
        return np.concatenate([np.array([*ordered, *itertools.chain(*spans)]), tasks, table.ravel(), tiles.ravel()])

    def _table(self) -> np.ndarray:
        """Channel blocks of V and how many channels each has."""
        channels = self.parts.geometry.channels
        return np.array(
            [(b * self.v_block, min(self.lanes, channels - b * self.lanes)) for b in range(self.input_blocks)], np.int64
        )

    def _tiles(self, xs: Strided, ys: Strided, operands: Sequence[BoundOperand]) -> np.ndarray:
        """Every tile: where it reads and writes, and how much of it is inside the result."""
        g, size = self.parts.geometry, self.plan.tile
        _, height, width = g.axes
        counts = (g.batch, g.axes[0].out, *side_tiles(g, size))
        image, depth, row, column = np.indices(counts).reshape(4, -1)

        def offsets(s: Strided, low: tuple[int, int] = (0, 0)) -> np.ndarray:
            y, x = row * size - low[0], column * size - low[1]
            return image * s.image + depth * s.depth + y * s.height + x * s.width

        fields = [
            offsets(xs, (height.low, width.low)),
            offsets(ys),
            np.minimum(height.out - row * size, size),
            np.minimum(width.out - column * size, size),
        ]
        for operand, kind in zip(operands, self.parts.epilogue.kinds, strict=True):
            own = operand.strides
            fields.append(offsets(own) if kind is OperandKind.TENSOR else image * own.image)
        return np.stack(fields, axis=1).astype(np.int64)

    def _tasks(self) -> tuple[np.ndarray, list[int]]:
        """Tasks of all working threads, and where each thread's begin and end."""
        plan = self.plan
        total = tile_count(self.parts.geometry, plan.tile)
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
        per_block = self.structure.side**2 * self.parts.geometry.channels * self.lanes
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


def _check(seen: np.ndarray) -> None:
    """Raise NotFinite, and forget it, if a thread has seen a sum that is not finite."""
    if np.isnan(seen).any():
        seen[...] = 0.0
        raise NotFinite


def _odd_lines(floats: int) -> int:
    """At least as many floats, in an odd number of cache lines."""
    return (-(-floats // LINE) | 1) * LINE
