"""The native steps of a direct convolution as data: a function from sizes and strides to parameters.

Nothing here knows weights or addresses, so what is computed for one layer serves all of equal geometry: `step_data` is
kept for the process, a bounded number of bytes of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.epilogue import OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.memory import Strided
from autofusion_kernels_cpu.conv.packing import group_starts
from autofusion_kernels_cpu.conv.phases import Phase, phases
from autofusion_kernels_cpu.conv.products import Structure
from autofusion_kernels_cpu.conv.schedule import StepSize, schedule
from autofusion_kernels_cpu.conv.tables import blocked_table, depthwise_table, planar_table
from autofusion_kernels_cpu.conv.tasks import Groups, Planes, RowStrides, task_data
from autofusion_kernels_cpu.conv.tiles import cover, widths
from autofusion_kernels_cpu.conv.variant import Variant, row_taps, splits_of
from autofusion_kernels_cpu.conv.weights import FilterGroup, filter_groups
from autofusion_kernels_cpu.kept import Kept


@dataclass(frozen=True, slots=True, eq=False)
class StepData:
    """One call of the kernel without its buffers: the code's structure, parameters by name, data, working threads."""

    structure: Structure
    params: dict[str, int]
    data: np.ndarray
    workers: int


@dataclass(frozen=True, slots=True, eq=False)
class LayerData:
    """The steps of a layer, and the groups of output channels in the order of the packed weights."""

    filters: tuple[FilterGroup, ...]
    steps: tuple[StepData, ...]

    @property
    def nbytes(self) -> int:
        """Memory of the data."""
        return sum(step.data.nbytes for step in self.steps)


@dataclass(frozen=True)
class Layer:
    """All that the parameters of a direct convolution depend on: sizes, strides in floats, kinds of the epilogue's
    operands, and threads worth using.
    """

    geometry: Geometry
    variant: Variant
    x: Strided
    y: Strided
    operands: tuple[Strided, ...]
    kinds: tuple[OperandKind, ...]
    workers: int
    target: Target

    @cached_property
    def isa(self) -> Isa:
        """The instruction set of the target."""
        return isa_of(self.target)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """Those of the geometry."""
        return phases(self.geometry)

    @cached_property
    def phases_are_groups(self) -> bool:
        """Phases of the same size read the same pixels: they are groups like those of filters, and a row of pixels can
        meet all of them while it is in the cache.
        """
        return len({phase.count for phase in self.phases}) == 1

    @cached_property
    def batch_is_row(self) -> bool:
        """Images of one pixel lie side by side: a row of pixels as good as any."""
        single = all(a.size == a.out == a.kernel == 1 for a in self.geometry.axes)
        varying = [s.image for s, kind in zip(self.operands, self.kinds, strict=True) if kind is OperandKind.CHANNEL]
        same = all(s.image == self.y.image for s in self._tensors)
        return single and self.geometry.batch > 1 and not any(varying) and same

    @cached_property
    def _tensors(self) -> list[Strided]:
        return [s for s, kind in zip(self.operands, self.kinds, strict=True) if kind is OperandKind.TENSOR]

    def _merged(self) -> tuple[int, int, int] | None:
        """(depths, rows, pixels) with rows that follow each other without gaps taken as one, or None."""
        if not self.geometry.is_pointwise or self.variant is Variant.PLANAR:
            return None
        d, h, w = (a.out for a in self.geometry.axes)
        views, lanes = [self.x, self.y, *self._tensors], self.isa.lanes
        if h > 1 and any(s.height != w * lanes for s in views):
            return None
        if d > 1 and any(s.depth != h * w * lanes for s in views):
            return d, 1, h * w
        return 1, 1, d * h * w

    def planes(self) -> Planes:
        """Every image, depth and phase, in this order of importance: image, phase, depth."""
        g, count = self.geometry, len(self.operands)
        if self.batch_is_row:
            zero = np.zeros(1, np.int64)
            return Planes(zero, zero, np.zeros((1, count), np.int64), zero + 1, zero + g.batch, zero)
        merged, stride = self._merged(), 1 if g.transposed else g.axes[0].stride
        image = np.arange(g.batch)[:, None]
        # [images, phases and their depths] each.
        parts: list[list[np.ndarray]] = []
        for variant, phase in enumerate(self.phases[:1] if self.phases_are_groups else self.phases):
            depths, rows, pixels = merged or phase.count
            depth = np.arange(depths)
            one = np.ones((g.batch, depths), np.int64)

            def positions(s: Strided, phase: Phase = phase, depth: np.ndarray = depth) -> np.ndarray:
                return image * s.image + s.offset(0, phase.first) + depth * (phase.step[0] * s.depth)

            fields = [image * self.x.image + depth * (stride * self.x.depth), positions(self.y)]
            fields += [positions(s) for s in self.operands]
            parts.append([*fields, one * rows, one * pixels, one * variant])
        x, y, *operands, rows, pixels, variants = (
            np.concatenate(field, axis=1).ravel() for field in zip(*parts, strict=True)
        )
        stacked = np.stack(operands, axis=1) if operands else np.zeros((len(x), 0), np.int64)
        return Planes(x, y, stacked, rows, pixels, variants)

    def row_strides(self) -> RowStrides:
        """Floats between neighbouring output rows in input, output and operands."""
        height = self.geometry.axes[1]
        inner, outer = (1, height.stride) if self.geometry.transposed else (height.stride, 1)
        return RowStrides(self.x.height * inner, self.y.height * outer, tuple(s.height * outer for s in self.operands))

    def params(self) -> dict[str, int]:
        """The parameters of every step."""
        rows = self.row_strides()
        made = {
            "input_row": rows.input,
            "output_block": self.y.block,
            "output_row": rows.output,
            "output_line": self.y.height,
        }
        for i, (strides, row) in enumerate(zip(self.operands, rows.operands, strict=True)):
            made[f"operand{i}.block"], made[f"operand{i}.row"] = strides.block, row
        return made

    def structure(self, vectors: int, staged: bool = False, masked: bool = False) -> Structure:
        """The code for groups of `vectors` channel blocks."""
        depthwise = row_taps(self.geometry) if self.variant is Variant.DEPTHWISE else 0
        pixel, output_pixel = self._pixel()
        sizes = widths(self.isa, vectors, depthwise)
        return Structure(self.isa, pixel, output_pixel, vectors, sizes, depthwise, staged=staged, masked=masked)

    def _pixel(self) -> tuple[int, int]:
        """Floats between neighbouring output pixels in input and output."""
        if self.batch_is_row:
            return self.x.image, self.y.image
        width = self.geometry.axes[2]
        if self.geometry.transposed:
            return self.x.width, self.y.width * width.stride
        return self.x.width * width.stride, self.y.width

    def filter_groups(self, pixels: int) -> tuple[FilterGroup, ...]:
        """The groups of output channels, for rows of `pixels`."""
        g = self.geometry
        splits = splits_of(self.isa, g, self.variant, pixels)
        return filter_groups(splits, self.isa.lanes, g.filters, g.group_channels, g.group_filters)

    def table(self, group: FilterGroup, phase: Phase) -> np.ndarray:
        """Where the kernel finds the inputs of a sum: int64 [entries, 2] of (offset, k)."""
        if self.variant is Variant.PLANAR:
            return planar_table(self.geometry, phase, self.x)
        if self.variant is Variant.DEPTHWISE:
            return depthwise_table(phase, self.x, row_taps(self.geometry))
        return blocked_table(group, phase, self.x, self.isa.lanes)

    def groups(self, filters: tuple[FilterGroup, ...], vectors: int) -> Groups:
        """Those of `filters` that have `vectors` channel blocks."""
        lanes, y = self.isa.lanes, self.y
        chosen = [i for i, f in enumerate(filters) if f.vectors == vectors]
        weights = group_starts(self.geometry, self.variant, filters, lanes)[chosen]
        # Filter groups that read the same channels share their tables; depthwise ones only differ in where they start.
        depthwise = self.variant is Variant.DEPTHWISE
        keys = [(0, 0) if depthwise else (filters[i].first, filters[i].last) for i in chosen]
        numbers = {key: n * len(self.phases) for n, key in enumerate(dict.fromkeys(keys))}
        read = {key: filters[i] for key, i in zip(keys, chosen, strict=True)}
        tables = [self.table(read[key], phase) for key in numbers for phase in self.phases]
        table = np.array([numbers[key] for key in keys], np.int64)[:, None] + np.arange(len(self.phases))
        block = np.array([filters[i].block for i in chosen], np.int64)
        source, result = block * self.x.block * int(depthwise), block * y.block
        operands = block[:, None] * np.array([s.block for s in self.operands], np.int64)
        bias = block * lanes
        if self.phases_are_groups and len(self.phases) > 1:
            # One group for each filter group and phase.
            source, bias = np.repeat(source, len(self.phases)), np.repeat(bias, len(self.phases))
            first = np.array([[s.offset(0, p.first) for s in (y, *self.operands)] for p in self.phases], np.int64)
            result = (result[:, None] + first[:, 0]).ravel()
            operands = (operands[:, None] + first[:, 1:]).reshape(len(bias), len(self.operands))
            weights, table = weights.reshape(-1, 1), table.reshape(-1, 1)
        return Groups(source, weights, table, tables, bias, result, operands)

    def steps(self) -> LayerData:
        """One step for each number of vectors in the filter groups."""
        planes, g = self.planes(), self.geometry
        filters = self.filter_groups(int(planes.pixels.max()))
        made = []
        for vectors in dict.fromkeys(f.vectors for f in filters):
            channels = max(f.last - f.first for f in filters if f.vectors == vectors)
            masked = self.variant is not Variant.DEPTHWISE and channels > g.group_channels
            structure, groups = self.structure(vectors, masked=masked), self.groups(filters, vectors)
            lengths = np.unique(planes.pixels)
            tiles = {int(n): cover(self.isa, vectors, int(n), structure.depthwise).tiles for n in lengths}
            size = StepSize(
                groups=len(groups.bias),
                group_floats=max(int(t[:, 1].sum()) for t in groups.tables) * vectors * self.isa.lanes,
                input_floats=g.batch * g.channels * math.prod(a.size for a in g.axes),
                tiles=sum(int(planes.rows[planes.pixels == n].sum()) * tiles[int(n)] for n in lengths),
                rows=int(planes.rows.sum()),
                pixels=int((planes.rows * planes.pixels).sum()),
                channels=channels,
                taps=max(phase.size for phase in self.phases),
            )
            cut = schedule(size, self.workers, self.target)
            data = task_data(structure, groups, planes, cut, self.row_strides(), self.target.threads)
            made.append(StepData(structure, self.params(), data, cut.workers))
        return LayerData(filters, tuple(made))


KEPT: Kept[LayerData] = Kept(16 << 20)


def step_data(layer: Layer) -> LayerData:
    """The steps of a layer, shared by all of equal sizes and strides."""
    return KEPT.get(layer, layer.steps, lambda data: data.nbytes)
