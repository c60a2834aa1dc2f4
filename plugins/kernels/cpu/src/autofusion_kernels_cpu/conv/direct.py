"""The direct convolution: dense, grouped, depthwise, strided, dilated, transposed, over 1 to 3 spatial axes."""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autofusion.kernels import BindContext, Target, TensorView
from autofusion_kernels_cpu.codegen.epilogue import OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa, host_isa
from autofusion_kernels_cpu.conv import generator
from autofusion_kernels_cpu.conv.anchored import Anchored, Strided, bind_epilogue, strided
from autofusion_kernels_cpu.conv.geometry import Axis, Geometry, transposed_phases
from autofusion_kernels_cpu.conv.products import Structure
from autofusion_kernels_cpu.conv.schedule import Load, schedule
from autofusion_kernels_cpu.conv.tasks import Group, Plane, parameters
from autofusion_kernels_cpu.conv.tiles import channel_groups, cover, widths
from autofusion_kernels_cpu.conv.weights import (
    FilterGroup,
    aligned_concatenation,
    channel_runs,
    filter_groups,
    pack_blocked,
    pack_depthwise,
    pack_planar,
    padded_vector,
)
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref


class Form(enum.Enum):
    """How the sum is laid out for the kernel."""

    BLOCKED = "direct"
    """Blocked input; the k loop runs along channels."""
    DEPTHWISE = "depthwise"
    """Blocked input, one filter for each channel; there is no k loop."""
    PLANAR = "planar"
    """Plain input with few channels (an image); the k loop runs along the taps of a row, so that three channels are no
    hindrance.
    """


@dataclass(frozen=True, slots=True)
class Phase:
    """Output positions that meet the same taps: all of them, or one remainder of a transposed convolution.

    For each axis: first output position, step to the next, how many, and (kernel index, input shift in elements) of
    each tap.
    """

    first: tuple[int, int, int]
    step: tuple[int, ...]
    count: tuple[int, ...]
    taps: tuple[tuple[tuple[int, int], ...], ...]


def phases(geometry: Geometry) -> list[Phase]:
    """The phases of a convolution: one unless it is transposed with a stride."""
    if not geometry.transposed:
        taps = tuple(tuple((k, k * a.dilation - a.low) for k in range(a.kernel)) for a in geometry.axes)
        return [Phase((0, 0, 0), (1, 1, 1), tuple(a.out for a in geometry.axes), taps)]
    made = []
    for choice in itertools.product(*(transposed_phases(a) for a in geometry.axes)):
        first, count, taps = zip(*choice, strict=True)
        steps = tuple(a.stride for a in geometry.axes)
        made.append(Phase(first, steps, count, tuple(tuple(t) for t in taps)))
    return made


def splits_of(isa: Isa, geometry: Geometry, pixels: int) -> tuple[int, ...]:
    """Channel blocks of each filter group."""
    lanes = isa.lanes
    blocks = -(-geometry.filters // lanes)
    if geometry.groups == 1:
        return channel_groups(isa, blocks, pixels)
    if geometry.group_filters % lanes == 0:
        return channel_groups(isa, geometry.group_filters // lanes, pixels) * geometry.groups
    # Groups that share a block: more blocks in a tile would multiply by zeros only.
    return (1,) * blocks


def row_taps(geometry: Geometry) -> int:
    """Taps of a row that a depthwise kernel takes together: those of common, undilated filters."""
    width = geometry.axes[2]
    return width.kernel if width.dilation == 1 and width.kernel in (3, 5, 7) else 1


def cost(isa: Isa, geometry: Geometry, form: Form) -> float:
    """Cycles of one core, were all data in the first-level cache."""
    axes = geometry.axes
    rows, pixels = axes[0].out * axes[1].out, axes[2].out
    if geometry.is_pointwise:
        rows, pixels = 1, rows * pixels
    if geometry.transposed:
        # All phases together.
        pixels = -(-pixels // axes[2].stride)
        rows = rows * axes[2].stride
    entries = geometry.taps / (math.prod(a.stride for a in axes) if geometry.transposed else 1)
    lanes = isa.lanes
    total = 0.0
    if form is Form.DEPTHWISE:
        blocks = -(-geometry.filters // lanes)
        together = row_taps(geometry)
        return geometry.batch * rows * blocks * geometry.taps / together * cover(isa, 1, pixels, together).cycles
    splits = splits_of(isa, geometry, pixels)
    groups = filter_groups(splits, lanes, geometry.filters, geometry.group_channels, geometry.group_filters)
    for vectors, group in zip(splits, groups, strict=True):
        channels = group.last - group.first
        runs = (
            channels * axes[0].kernel * axes[1].kernel
            if form is Form.PLANAR
            else len(channel_runs(group, lanes)) * entries
        )
        # A table entry costs about four k steps' worth of loop and load latency.
        steps = channels * entries + 2 * runs / max(vectors, 1)
        total += cover(isa, vectors, pixels).cycles * steps
    return geometry.batch * rows * total


class DirectConv:
    """Binds one convolution to views. `workers` is how many threads are worth using."""

    def __init__(self, parts: Anchored, form: Form, workers: int) -> None:
        self.parts, self.form, self.workers = parts, form, workers

    def __call__(
        self, context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]
    ) -> NativeKernel:
        x, y = inputs[self.parts.operand], outputs[0]
        assert x is not None
        return NativeKernel(tuple(Binding(self.parts, self.form, self.workers, context, inputs, x, y).steps()))


class Binding:
    """One convolution with the memory it works on."""

    def __init__(
        self,
        parts: Anchored,
        form: Form,
        workers: int,
        context: BindContext,
        inputs: Sequence[TensorView | None],
        x: TensorView,
        y: TensorView,
    ) -> None:
        self.parts, self.form, self.workers, self.context = parts, form, workers, context
        self.geometry, self.epilogue = parts.geometry, parts.epilogue
        self.target: Target = context.target
        self.isa = host_isa(context.target.isa)
        self.lanes = self.isa.lanes
        self.blocks = -(-self.geometry.filters // self.lanes)
        self.x, self.y = x, y
        self.xs, self.ys = strided(x), strided(y)
        self.operands = bind_epilogue(self.epilogue, inputs, self.blocks, self.lanes, y.shape)
        self.phases = phases(self.geometry)
        self.batch_is_row = self._batch_is_row()
        # Phases of the same size read the same pixels: they are groups like those of filters, and a row of pixels can
        # meet all of them while it is in the cache.
        self.phases_are_groups = len({phase.count for phase in self.phases}) == 1
        self._tables: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}

    # --- shape of the iteration ---------------------------------------------------------------------------------------
    def _tensor_strides(self) -> list[Strided]:
        kinds = zip(self.operands, self.epilogue.kinds, strict=True)
        return [o.strides for o, kind in kinds if kind is OperandKind.TENSOR]

    def _batch_is_row(self) -> bool:
        """Images of one pixel lie side by side: a row of pixels as good as any."""
        single = all(a.size == a.out == a.kernel == 1 for a in self.geometry.axes)
        varying = [
            o.strides.image for o, k in zip(self.operands, self.epilogue.kinds, strict=True) if k is OperandKind.CHANNEL
        ]
        same = all(s.image == self.ys.image for s in self._tensor_strides())
        return single and self.geometry.batch > 1 and not any(varying) and same

    def _merged(self) -> tuple[int, int, int] | None:
        """(depths, rows, pixels) with rows that follow each other without gaps taken as one, or None."""
        if not self.geometry.is_pointwise or self.form is Form.PLANAR:
            return None
        d, h, w = (a.out for a in self.geometry.axes)
        views = [self.xs, self.ys, *self._tensor_strides()]
        if h > 1 and any(s.height != w * self.lanes for s in views):
            return None
        if d > 1 and any(s.depth != h * w * self.lanes for s in views):
            return d, 1, h * w
        return 1, 1, d * h * w

    def planes(self) -> list[Plane]:
        """Every image, depth and phase."""
        g, xs, ys = self.geometry, self.xs, self.ys
        if self.batch_is_row:
            return [Plane(0, 0, (0,) * len(self.operands), 1, g.batch)]
        merged = self._merged()
        made = []
        for image in range(g.batch):
            for variant, phase in enumerate(self.phases[:1] if self.phases_are_groups else self.phases):
                depths, rows, pixels = merged or phase.count
                for depth in range(depths):
                    out = (phase.first[0] + depth * phase.step[0], phase.first[1], phase.first[2])
                    stride = 1 if g.transposed else g.axes[0].stride
                    made.append(
                        Plane(
                            image * xs.image + depth * stride * xs.depth,
                            offset(ys, image, out),
                            tuple(offset(o.strides, image, out) for o in self.operands),
                            rows,
                            pixels,
                            variant,
                        )
                    )
        return made

    # --- weights and tables -------------------------------------------------------------------------------------------
    def _taps(self, phase: Phase) -> list[tuple[int, int]]:
        """(index of the weight among all taps, input offset) of a phase's taps in order."""
        kernels, strides = [a.kernel for a in self.geometry.axes], (self.xs.depth, self.xs.height, self.xs.width)
        made = []
        for taps in itertools.product(*phase.taps):
            index, offset = 0, 0
            for (k, shift), size, stride in zip(taps, kernels, strides, strict=True):
                index, offset = index * size + k, offset + shift * stride
            made.append((index, offset))
        return made

    def _table(self, group: FilterGroup, phase: Phase) -> np.ndarray:
        if self.form is Form.PLANAR:
            return self._planar_table()
        taps = [offset for _, offset in self._taps(phase)]
        if self.form is Form.DEPTHWISE:
            return np.array([(offset, 1) for offset in taps[:: row_taps(self.geometry)]], np.int64)
        entries = []
        for channel, count in channel_runs(group, self.lanes):
            base = channel // self.lanes * self.xs.block + channel % self.lanes
            entries += [(base + offset, count) for offset in taps]
        return np.array(entries, np.int64).reshape(-1, 2)

    def _planar_table(self) -> np.ndarray:
        depth, height, width = self.phases[0].taps
        joined = self._row_is_run()
        entries = []
        for channel in range(self.geometry.channels):
            for (_, d), (_, h) in itertools.product(depth, height):
                base = channel * self.xs.block + d * self.xs.depth + h * self.xs.height
                if joined:
                    entries.append((base + width[0][1], len(width)))
                else:
                    entries += [(base + w, 1) for _, w in width]
        return np.array(entries, np.int64).reshape(-1, 2)

    def _row_is_run(self) -> bool:
        return self.geometry.axes[2].dilation == 1

    def _filters_first(self) -> np.ndarray:
        """The weights as [filters, channels of a group, taps]."""
        g, w = self.geometry, self.parts.weights.astype(np.float32, copy=False)
        if not g.transposed:
            return w.reshape(g.filters, g.group_channels, g.taps)
        grouped = w.reshape(g.groups, g.group_channels, g.group_filters, g.taps)
        return grouped.transpose(0, 2, 1, 3).reshape(g.filters, g.group_channels, g.taps)

    def _packed(self, groups: Sequence[FilterGroup]) -> tuple[np.ndarray, list[list[int]]]:
        """Packed weights of all variants, and for each variant where each group's begin. Kept for the session."""
        # One array may be the weights of several layers, and pads and strides decide which taps a phase has.
        taps = tuple(tuple(index for index, _ in self._taps(phase)) for phase in self.phases)
        g = self.geometry
        key = ("conv.weights", id(self.parts.weights), self.isa.name, self.form, tuple(groups), g.transposed, taps)
        entry = self.context.cache.get(key)
        if entry is None:
            entry = (self.parts.weights, *self._pack(groups))
            self.context.cache[key] = entry
        return entry[1], entry[2]

    def _pack(self, groups: Sequence[FilterGroup]) -> tuple[np.ndarray, list[list[int]]]:
        g, weights = self.geometry, self._filters_first()
        if self.form is Form.DEPTHWISE:
            packed, starts = pack_depthwise(weights[:, 0], self.blocks, self.lanes)
            return packed, [starts]
        if self.form is Form.PLANAR:
            rows = weights.reshape(g.filters, g.channels, -1, g.axes[2].kernel)
            packed, starts = pack_planar(rows, groups, self.lanes)
            return packed, [starts]
        if len(self.phases) == 1 and not g.transposed:
            packed, starts = pack_blocked(weights, groups, self.lanes, g.group_filters)
            return packed, [starts]
        parts, all_starts, size = [], [], 0
        for phase in self.phases:
            chosen = weights[:, :, [index for index, _ in self._taps(phase)]]
            packed, starts = pack_blocked(chosen, groups, self.lanes, g.group_filters)
            used = sum(v.vectors * self.lanes * (v.last - v.first) for v in groups) * chosen.shape[2]
            all_starts.append([size + s for s in starts])
            parts.append(packed[:used])
            size += used
        return aligned_concatenation(parts, size), all_starts

    # --- steps --------------------------------------------------------------------------------------------------------
    def steps(self) -> list[NativeStep]:
        """One step for each number of vectors in the filter groups."""
        g, lanes = self.geometry, self.lanes
        planes = self.planes()
        pixels = max(plane.pixels for plane in planes)
        splits = (1,) * self.blocks if self.form is Form.DEPTHWISE else splits_of(self.isa, g, pixels)
        filters = filter_groups(splits, lanes, g.filters, g.group_channels, g.group_filters)
        packed, starts = self._packed(filters)
        bias = padded_vector(self.parts.bias, self.blocks + 8, lanes)
        made = []
        for vectors in dict.fromkeys(f.vectors for f in filters):
            groups = [
                group
                for i, f in enumerate(filters)
                for group in self._groups(f, tuple(s[i] for s in starts))
                if f.vectors == vectors
            ]
            channels = max(f.last - f.first for f in filters if f.vectors == vectors)
            made.append(self._step(vectors, channels, groups, planes, packed, bias))
        return [replace(step, barrier=False) for step in made[:-1]] + made[-1:]

    def _groups(self, filters: FilterGroup, starts: tuple[int, ...]) -> list[Group]:
        source = filters.block * self.xs.block if self.form is Form.DEPTHWISE else 0
        # Filter groups that read the same channels share their tables; depthwise ones only differ in where they start.
        key = (0, 0) if self.form is Form.DEPTHWISE else (filters.first, filters.last)
        if key not in self._tables:
            self._tables[key] = tuple(self._table(filters, phase) for phase in self.phases)
        tables = self._tables[key]
        operands = tuple(filters.block * o.strides.block for o in self.operands)
        group = Group(source, starts, tables, filters.block * self.lanes, filters.block * self.ys.block, operands)
        if not self.phases_are_groups:
            return [group]
        return [
            replace(
                group,
                weights=(start,),
                tables=(table,),
                output=group.output + offset(self.ys, 0, phase.first),
                operands=tuple(
                    base + offset(o.strides, 0, phase.first) for base, o in zip(operands, self.operands, strict=True)
                ),
            )
            for phase, start, table in zip(self.phases, starts, tables, strict=True)
        ]

    def _pixel(self) -> tuple[int, int]:
        """Floats between neighbouring output pixels in input and output."""
        if self.batch_is_row:
            return self.xs.image, self.ys.image
        width = self.geometry.axes[2]
        if self.geometry.transposed:
            return self.xs.width, self.ys.width * width.stride
        return self.xs.width * width.stride, self.ys.width

    def _rows(self) -> tuple[int, int, tuple[int, ...]]:
        """Floats between neighbouring output rows in input, output and operands."""
        height: Axis = self.geometry.axes[1]
        inner, outer = (1, height.stride) if self.geometry.transposed else (height.stride, 1)
        return (
            self.xs.height * inner,
            self.ys.height * outer,
            tuple(o.strides.height * outer for o in self.operands),
        )

    def _header(self) -> list[int]:
        rows = self._rows()
        header = [rows[0], self.ys.block, rows[1], self.ys.height]
        for operand, row in zip(self.operands, rows[2], strict=True):
            header += [operand.strides.block, row]
        return header

    def _step(
        self,
        vectors: int,
        channels: int,
        groups: Sequence[Group],
        planes: Sequence[Plane],
        packed: np.ndarray,
        bias: np.ndarray,
    ) -> NativeStep:
        pixel, output_pixel = self._pixel()
        depthwise = row_taps(self.geometry) if self.form is Form.DEPTHWISE else 0
        structure = Structure(
            self.isa,
            pixel,
            output_pixel,
            vectors,
            widths(self.isa, vectors, depthwise),
            depthwise,
            masked=not depthwise and channels > self.geometry.group_channels,
        )
        load = Load(
            groups=len(groups),
            group_floats=max(int(t[:, 1].sum()) for g in groups for t in g.tables) * vectors * self.lanes,
            input_floats=self.geometry.batch * self.geometry.channels * math.prod(a.size for a in self.geometry.axes),
            tiles=sum(p.rows * cover(self.isa, vectors, p.pixels, depthwise).tiles for p in planes),
            rows=sum(p.rows for p in planes),
            pixels=sum(p.rows * p.pixels for p in planes),
            channels=channels,
            taps=max(math.prod(map(len, phase.taps)) for phase in self.phases),
        )
        cut = schedule(load, self.workers, self.target)
        rows, threads = self._rows(), self.target.threads
        params = parameters(structure, self.epilogue, self._header(), groups, planes, cut, rows, threads)
        refs = (Ref(self.x), Ref(packed), Ref(bias), Ref(self.y), *(o.ref for o in self.operands))
        name = f"conv.{self.form.value}x{vectors}"
        return NativeStep(generator.kernel(structure, self.epilogue), refs, params, True, name, cut.workers)


def offset(strides: Strided, image: int, position: tuple[int, int, int]) -> int:
    """Floats from the first element of a view to a position of an image."""
    d, h, w = position
    return image * strides.image + d * strides.depth + h * strides.height + w * strides.width
