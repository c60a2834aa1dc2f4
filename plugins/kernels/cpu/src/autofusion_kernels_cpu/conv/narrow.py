"""Convolutions with few output channels, straight into a plain tensor.

With channel blocks, an image of one channel takes the arithmetic and the memory traffic of a whole block, and a
transposed convolution takes both again for each of its phases. Here the lanes of one vector are the channels and the
phases together: one sum for each input pixel, whose lanes are spread over the rows of a plain result (`PlainStore`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.kernels import BindContext, TensorView
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa, host_isa
from autofusion_kernels_cpu.conv import generator
from autofusion_kernels_cpu.conv.anchored import Anchored, Strided, strided
from autofusion_kernels_cpu.conv.geometry import Axis, Geometry, transposed_phases
from autofusion_kernels_cpu.conv.products import Interleave, Structure
from autofusion_kernels_cpu.conv.tasks import Group, Plane, Schedule, parameters
from autofusion_kernels_cpu.conv.tiles import cover, widths
from autofusion_kernels_cpu.conv.weights import FilterGroup, channel_runs, pack_blocked, padded_vector, read
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref

_MOST_STORES = 8
"""Stores for each sum: beyond it, a block and a copy of it are cheaper."""


@dataclass(frozen=True, slots=True)
class Taps:
    """Along one axis: `pixels` sums, `phases` results each; for each input shift, the kernel index of every phase (or
    None where the phase does not see it). A sum's input starts at `step` times its number.
    """

    pixels: int
    phases: int
    step: int
    shifts: tuple[tuple[int, tuple[int | None, ...]], ...]


def taps_of(axis: Axis, transposed: bool) -> Taps:
    """The taps of an axis: those of all phases together."""
    if not transposed:
        each = tuple((k * axis.dilation - axis.low, (k,)) for k in range(axis.kernel))
        return Taps(axis.out, 1, axis.stride, each)
    phases = transposed_phases(axis)
    seen: dict[int, list[int | None]] = {}
    for number, (_, _, taps) in enumerate(phases):
        for k, shift in taps:
            seen.setdefault(shift, [None] * len(phases))[number] = k
    return Taps(axis.out // len(phases), len(phases), 1, tuple((s, tuple(seen[s])) for s in sorted(seen)))


def interleave_of(geometry: Geometry, lanes: int) -> Interleave | None:
    """What the lanes of a sum stand for, or None where there are too many channels and phases, or phases of unequal
    length.
    """
    _, height, width = geometry.axes
    if geometry.groups != 1:
        return None
    rows, columns = (height.stride, width.stride) if geometry.transposed else (1, 1)
    if geometry.transposed:
        even = height.out % rows == 0 and width.out % columns == 0 and geometry.axes[0].stride == 1
        if not even or not taps_of(height, True).shifts or not taps_of(width, True).shifts:
            return None
    parts = Interleave(geometry.filters, rows, columns)
    return parts if parts.channels * parts.rows <= _MOST_STORES and parts.lanes <= lanes else None


def cost(isa: Isa, geometry: Geometry, parts: Interleave) -> float:
    """Cycles of one core, were all data in the first-level cache."""
    taps = [taps_of(axis, geometry.transposed) for axis in geometry.axes]
    entries = math.prod(len(t.shifts) for t in taps)
    rows = geometry.batch * taps[0].pixels * taps[1].pixels
    steps = geometry.channels * entries + 2 * entries * -(-geometry.channels // isa.lanes)
    spread = parts.channels * parts.rows * taps[2].pixels
    return rows * (cover(isa, 1, taps[2].pixels).cycles * steps + spread)


class NarrowConv:
    """Binds one convolution to views. `workers` is how many threads are worth using."""

    def __init__(self, parts: Anchored, interleave: Interleave, workers: int) -> None:
        self.parts, self.workers = parts, workers
        self.geometry = parts.geometry
        self.taps = [taps_of(axis, self.geometry.transposed) for axis in self.geometry.axes]
        self.interleave = interleave

    def __call__(
        self, context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]
    ) -> NativeKernel:
        x, y, g = inputs[self.parts.operand], outputs[0], self.geometry
        assert x is not None
        isa = host_isa(context.target.isa)
        xs, ys = strided(x), strided(y)
        group = FilterGroup(0, 1, 0, g.channels)
        table = self._table(xs, group, isa.lanes)
        refs, steps = self._operands(inputs, y)
        planes = list(self._planes(xs, ys, steps, isa))
        structure = Structure(
            isa,
            xs.width * self.taps[2].step,
            self.interleave.columns,
            1,
            widths(isa, 1),
            interleave=self.interleave,
            masked=any(None in seen for taps in self.taps for _, seen in taps.shifts),
        )
        row = ys.height * self.interleave.rows
        rows = (xs.height * self.taps[1].step, row, tuple(row if s.height else 0 for s in steps))
        header = [rows[0], ys.block, row, ys.height]
        for stride, operand_row in zip(steps, rows[2], strict=True):
            header += [stride.block, operand_row]
        params = parameters(
            structure,
            self.parts.epilogue,
            header,
            [Group(0, (0,), (table,), 0, 0, (0,) * len(steps))],
            planes,
            Schedule(1, self.workers),
            rows,
            context.target.threads,
        )
        repeats = self.interleave.rows * self.interleave.columns
        bias = padded_vector(None if self.parts.bias is None else np.repeat(self.parts.bias, repeats), 1, isa.lanes)
        function = generator.kernel(structure, self.parts.epilogue)
        buffers = (Ref(x), Ref(self._weights(context, group, isa)), Ref(bias), Ref(y), *refs)
        return NativeKernel((NativeStep(function, buffers, params, name="conv.narrow", workers=self.workers),))

    def _table(self, xs: Strided, group: FilterGroup, lanes: int) -> np.ndarray:
        strides = (xs.depth, xs.height, xs.width)
        shifts = [
            sum(shift * stride for (shift, _), stride in zip(taps, strides, strict=True)) for taps in self._all_taps()
        ]
        entries = []
        for channel, count in channel_runs(group, lanes):
            base = channel // lanes * xs.block + channel % lanes
            entries += [(base + shift, count) for shift in shifts]
        return np.array(entries, np.int64)

    def _all_taps(self) -> Iterator[tuple[tuple[int, tuple[int | None, ...]], ...]]:
        return itertools.product(*(t.shifts for t in self.taps))

    def _weights(self, context: BindContext, group: FilterGroup, isa: Isa) -> np.ndarray:
        """Packed weights of the only group, kept for the session."""
        weights = self.parts.weights
        key = ("conv.narrow", id(weights), isa.name, self.geometry.transposed, tuple(self.taps))
        entry = context.cache.get(key)
        if entry is None:
            entry = (weights, pack_blocked(self._lanes(weights), [group], isa.lanes, self.interleave.lanes)[0])
            context.cache[key] = entry
        packed: np.ndarray = entry[1]
        return packed

    def _lanes(self, weights: np.ndarray) -> np.ndarray:
        """The weights as [lanes of a sum, channels, taps], zero where a phase does not see a tap."""
        g, parts = self.geometry, self.interleave
        if g.transposed:
            weights = weights.swapaxes(0, 1)
        weights = weights.reshape(g.filters, g.channels, *(axis.kernel for axis in g.axes))
        taps = list(self._all_taps())
        made = np.zeros((g.filters, parts.rows, parts.columns, g.channels, len(taps)), np.float32)
        for t, (depth, height, width) in enumerate(taps):
            for (r, y), (c, x) in itertools.product(enumerate(height[1]), enumerate(width[1])):
                if y is not None and x is not None:
                    made[:, r, c, :, t] = read(weights[:, :, depth[1][0], y, x])
        return made.reshape(parts.lanes, g.channels, len(taps))

    def _planes(self, xs: Strided, ys: Strided, operands: Sequence[Strided], isa: Isa) -> Iterator[Plane]:
        g, (depth, height, width) = self.geometry, self.taps
        rows, pixels = height.pixels, width.pixels
        if g.is_pointwise and xs.height == pixels * isa.lanes:
            # Rows follow each other without a gap, in the result as well.
            rows, pixels = 1, rows * pixels
        for image in range(g.batch):
            for d in range(depth.pixels):
                yield Plane(
                    image * xs.image + d * depth.step * xs.depth,
                    image * ys.image + d * ys.depth,
                    tuple(image * s.image + d * s.depth for s in operands),
                    rows,
                    pixels,
                )

    def _operands(self, inputs: Sequence[TensorView | None], y: TensorView) -> tuple[list[Ref], list[Strided]]:
        """Memory and strides of the epilogue's operands: like the result, one number a channel, or one number."""
        refs, strides = [], []
        epilogue: Epilogue = self.parts.epilogue
        for leaf, kind in zip(epilogue.leaves, epilogue.kinds, strict=True):
            each_image = kind is OperandKind.CHANNEL and len(leaf.shape) == len(y.shape) and leaf.shape[0] > 1
            once = Strided(self.geometry.filters if each_image else 0, 0, 0, 0, 0)
            strides.append(strided(y) if kind is OperandKind.TENSOR else once)
            if leaf.constant is not None:
                data = leaf.constant
                if kind is OperandKind.TENSOR:
                    data = np.broadcast_to(data, y.shape)
                refs.append(Ref(np.ascontiguousarray(data, np.float32).reshape(-1)))
            else:
                assert leaf.operand is not None
                view = inputs[leaf.operand]
                assert view is not None
                refs.append(Ref(view))
        return refs, strides
