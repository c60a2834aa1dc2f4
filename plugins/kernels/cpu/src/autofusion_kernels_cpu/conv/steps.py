"""The native steps of a direct convolution as data: a function from sizes and strides to parameters.

Nothing here knows weights or addresses, so what is computed for one layer serves all of equal geometry: `step_data` is
kept for the process, a bounded number of bytes of it.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.epilogue import OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.grouping import Grouping, Groupings, groupings
from autofusion_kernels_cpu.conv.memory import Strided
from autofusion_kernels_cpu.conv.phases import Phase, phases
from autofusion_kernels_cpu.conv.products import Structure
from autofusion_kernels_cpu.conv.schedule import StepSize, schedule
from autofusion_kernels_cpu.conv.tables import blocked_table, depthwise_table, planar_table
from autofusion_kernels_cpu.conv.tasks import Groups, Planes, task_data
from autofusion_kernels_cpu.conv.tiles import cover, widths
from autofusion_kernels_cpu.conv.variant import Variant, row_taps, taps_together
from autofusion_kernels_cpu.conv.weights import FilterGroup
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

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: a look-up takes it several times. Of what tells layers apart."""
        return hash((self.geometry, self.x, self.y, self.operands, self.workers))

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
        if self.geometry.batch == 1:
            return False
        single = all(a.size == a.out == a.kernel == 1 for a in self.geometry.axes)
        varying = [s.image for s, kind in zip(self.operands, self.kinds, strict=True) if kind is OperandKind.CHANNEL]
        same = all(s.image == self.y.image for s in self._tensors)
        return single and not any(varying) and same

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

    @cached_property
    def _strides(self) -> tuple[Strided, ...]:
        """Of input, output and operands."""
        return (self.x, self.y, *self.operands)

    def planes(self) -> list[Planes]:
        """Every image and depth, phase by phase."""
        g = self.geometry
        if self.batch_is_row:
            return [Planes(np.zeros((1, len(self._strides)), np.int64), 1, g.batch)]
        merged, stride = self._merged(), 1 if g.transposed else g.axes[0].stride
        if g.batch == 1 and len(self.phases) == 1 and (merged or self.phases[0].count)[0] == 1:
            return [Planes(np.zeros((1, len(self._strides)), np.int64), *(merged or self.phases[0].count)[1:])]
        images = np.arange(g.batch)[:, None, None] * np.array([s.image for s in self._strides])
        made = []
        for phase in self.phases[:1] if self.phases_are_groups else self.phases:
            depths, rows, pixels = merged or phase.count
            first = [0, *(s.offset(0, phase.first) for s in self._strides[1:])]
            offsets = images + first
            if depths > 1:
                steps = [stride * self.x.depth, *(phase.step[0] * s.depth for s in self._strides[1:])]
                offsets = offsets + np.arange(depths)[:, None] * np.array(steps)
            made.append(Planes(offsets.reshape(-1, len(first)), rows, pixels))
        return made

    @cached_property
    def row(self) -> np.ndarray:
        """Floats between neighbouring output rows in input, output and operands."""
        height = self.geometry.axes[1]
        inner, outer = (1, height.stride) if self.geometry.transposed else (height.stride, 1)
        return np.array([self.x.height * inner, *(s.height * outer for s in self._strides[1:])], np.int64)

    def params(self) -> dict[str, int]:
        """The parameters of every step."""
        x, y, *operands = self.row.tolist()
        made = {"input_row": x, "output_block": self.y.block, "output_row": y, "output_line": self.y.height}
        for i, (strides, row) in enumerate(zip(self.operands, operands, strict=True)):
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

    def groupings(self, pixels: int) -> Groupings:
        """The groups of output channels, for rows of `pixels`."""
        return groupings(self.isa, self.geometry, self.variant, pixels, self.phases_are_groups)

    def tables(self, grouping: Grouping) -> list[np.ndarray]:
        """Where the kernel finds the inputs of a sum: int64 [entries, 2] of (offset, k), for each reader and phase."""
        together = taps_together(self.geometry, self.variant)
        if self.variant is Variant.PLANAR:
            return [planar_table(self.geometry.channels, self.phases[0], self.x, together)]
        strides = (self.x.depth, self.x.height, self.x.width)
        shifts = [phase.input_offsets(strides) for phase in self.phases]
        if self.variant is Variant.DEPTHWISE:
            return [depthwise_table(each, together) for each in shifts]
        return [blocked_table(runs, each, self.x) for runs in grouping.runs for each in shifts]

    def groups(self, grouping: Grouping) -> Groups:
        """The groups of one size, with this layer's strides."""
        depthwise = self.variant is Variant.DEPTHWISE
        blocks = [self.x.block if depthwise else 0, *(s.block for s in self._strides[1:])]
        offsets = grouping.block[:, None] * np.array(blocks)
        if self.phases_are_groups and len(self.phases) > 1:
            first = [[0, *(s.offset(0, phase.first) for s in self._strides[1:])] for phase in self.phases]
            offsets = offsets + np.tile(np.array(first), (len(offsets) // len(first), 1))
        bias = grouping.block * self.isa.lanes
        tables = self.tables(grouping)
        return Groups(offsets, grouping.weights, grouping.table, tables, bias, grouping.templates)

    def steps(self) -> LayerData:
        """One step for each number of vectors in the filter groups."""
        planes, g = self.planes(), self.geometry
        found = self.groupings(max(each.pixels for each in planes))
        rows = [len(each.offsets) * each.rows for each in planes]
        made = []
        for grouping in found.sizes:
            vectors, groups = grouping.vectors, self.groups(grouping)
            structure = self.structure(vectors, masked=grouping.masked)
            tiles = [cover(self.isa, vectors, each.pixels, structure.depthwise).tiles for each in planes]
            size = StepSize(
                groups=len(groups),
                group_floats=grouping.summed(groups.tables) * vectors * self.isa.lanes,
                input_floats=g.batch * g.channels * math.prod(a.size for a in g.axes),
                tiles=sum(map(operator.mul, rows, tiles)),
                rows=sum(rows),
                pixels=sum(count * each.pixels for count, each in zip(rows, planes, strict=True)),
                channels=grouping.channels,
                taps=max(phase.size for phase in self.phases),
            )
            cut = schedule(size, self.workers, self.target)
            data = task_data(structure, groups, planes, cut, self.row, self.target.threads)
            made.append(StepData(structure, self.params(), data, cut.workers))
        return LayerData(found.filters, tuple(made))


KEPT: Kept[LayerData] = Kept(16 << 20)


def step_data(layer: Layer) -> LayerData:
    """The steps of a layer, shared by all of equal sizes and strides."""
    return KEPT.get(layer, layer.steps, lambda data: data.nbytes)
