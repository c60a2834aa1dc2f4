"""Convolutions with few output channels, straight into a plain tensor.

With channel blocks, an image of one channel takes the arithmetic and the memory traffic of a whole block, and a
transposed convolution takes both again for each of its phases. Here the lanes of one vector are the channels and the
phases together: one sum for each input pixel, whose lanes are spread over the rows of a plain result (`PlainStore`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from autofusion.kernels import BindContext, Layout, Offer, Operand, Refusal, Target, TensorView
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.conv.geometry import Axis, Geometry, transposed_phases
from autofusion_kernels_cpu.conv.kernel import kernel
from autofusion_kernels_cpu.conv.memory import FIXED, Strided, strided
from autofusion_kernels_cpu.conv.problem import ConvProblem
from autofusion_kernels_cpu.conv.products import Interleave, Structure
from autofusion_kernels_cpu.conv.schedule import Schedule, cost
from autofusion_kernels_cpu.conv.steps import KEPT, LayerData, StepData
from autofusion_kernels_cpu.conv.tables import blocked_table
from autofusion_kernels_cpu.conv.tasks import Groups, Planes, task_data
from autofusion_kernels_cpu.conv.tiles import cover, widths
from autofusion_kernels_cpu.conv.weights import FilterGroup, channel_runs, pack_blocked, padded_vector, read
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.packed import packed
from autofusion_kernels_cpu.support import again

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


def cycles_of(isa: Isa, geometry: Geometry, parts: Interleave) -> float:
    """Cycles of one core, were all data in the first-level cache."""
    taps = [taps_of(axis, geometry.transposed) for axis in geometry.axes]
    entries = math.prod(len(t.shifts) for t in taps)
    rows = geometry.batch * taps[0].pixels * taps[1].pixels
    steps = geometry.channels * entries + 2 * entries * -(-geometry.channels // isa.lanes)
    spread = parts.channels * parts.rows * taps[2].pixels
    return rows * (cover(isa, 1, taps[2].pixels).cycles * steps + spread)


def offer(problem: ConvProblem, target: Target) -> Offer | Refusal:
    """From channel blocks straight into a plain tensor, for few output channels and phases."""
    interleave = interleave_of(problem.geometry, target.lanes)
    if interleave is None:
        return Refusal("its output channels and phases do not fit one vector")
    if problem.reads_input_twice:
        return Refusal("its epilogue reads the input as well, as a plain tensor")
    cycles = cycles_of(isa_of(target), problem.geometry, interleave)
    tensors = problem.moved_bytes(Layout(target.lanes), Layout())
    seconds, workers = cost(target, cycles, problem.weights.nbytes, tensors)
    return Offer(
        "conv.narrow",
        problem.operands(Layout(target.lanes), problem.geometry.border, Layout()),
        (Operand(),),
        partial(bind, problem, interleave, workers),
        seconds=seconds,
        resize=partial(again, problem.resized, offer, target),
    )


def bind(
    problem: ConvProblem,
    interleave: Interleave,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step, of one filter group."""
    x, y = inputs[problem.operand], outputs[0]
    assert x is not None
    sources, strides = _operands(context, problem, inputs, y)
    g = problem.geometry
    layer = _Layer(g, interleave, strided(x, g), strided(y, g), tuple(strides), workers, context.target)
    (step,) = KEPT.get(layer, layer.data, lambda data: data.nbytes).steps
    buffers: dict[str, Source] = {
        "input": x,
        "weights": _weights(context, problem, layer),
        "bias": _bias(context, problem.bias, interleave, layer.isa.lanes),
        "output": y,
        **{f"operand{i}": source for i, source in enumerate(sources)},
    }
    code = kernel(step.structure, problem.epilogue)
    return NativeKernel((code.step(buffers, step.params, step.data, label="conv.narrow", workers=step.workers),))


@dataclass(frozen=True)
class _Layer:
    """All that the parameters depend on: sizes, strides in floats, and threads worth using."""

    geometry: Geometry
    interleave: Interleave
    x: Strided
    y: Strided
    operands: tuple[Strided, ...]
    workers: int
    target: Target

    @cached_property
    def isa(self) -> Isa:
        """The instruction set of the target."""
        return isa_of(self.target)

    @cached_property
    def taps(self) -> tuple[Taps, ...]:
        """Those of each axis."""
        return tuple(taps_of(axis, self.geometry.transposed) for axis in self.geometry.axes)

    @property
    def group(self) -> FilterGroup:
        """The only filter group."""
        return FilterGroup(0, 1, 0, self.geometry.channels)

    def data(self) -> LayerData:
        """The only step."""
        x, y, parts = self.x, self.y, self.interleave
        structure = Structure(
            self.isa,
            x.width * self.taps[2].step,
            parts.columns,
            1,
            widths(self.isa, 1),
            interleave=parts,
            masked=any(None in seen for taps in self.taps for _, seen in taps.shifts),
        )
        row = y.height * parts.rows
        operand_rows = [row if s.height else 0 for s in self.operands]
        rows = np.array([x.height * self.taps[1].step, row, *operand_rows], np.int64)
        params = {"input_row": int(rows[0]), "output_block": y.block, "output_row": row, "output_line": y.height}
        for i, (strides, operand_row) in enumerate(zip(self.operands, operand_rows, strict=True)):
            params[f"operand{i}.block"], params[f"operand{i}.row"] = strides.block, operand_row
        zero = np.zeros((1, 1), np.int64)
        groups = Groups(np.zeros((1, len(rows)), np.int64), zero, zero, [self._table()], zero[0], {})
        cut = Schedule(1, self.workers)
        data = task_data(structure, groups, [self._planes()], cut, rows, self.target.threads)
        return LayerData((self.group,), (StepData(structure, params, data, self.workers),))

    def _table(self) -> np.ndarray:
        strides = (self.x.depth, self.x.height, self.x.width)
        depth, height, width = (
            np.array([shift for shift, _ in taps.shifts], np.int64) * stride
            for taps, stride in zip(self.taps, strides, strict=True)
        )
        shifts = (depth[:, None, None] + height[:, None] + width).ravel()
        runs = np.array(channel_runs(self.group, self.isa.lanes), np.int64)
        places = np.stack([runs[:, 0] // self.isa.lanes, runs[:, 0] % self.isa.lanes, runs[:, 1]], axis=1)
        return blocked_table(places, shifts, self.x)

    def _planes(self) -> Planes:
        depth, height, width = self.taps
        rows, pixels = height.pixels, width.pixels
        if self.geometry.is_pointwise and self.x.height == pixels * self.isa.lanes:
            # Rows follow each other without a gap, in the result as well.
            rows, pixels = 1, rows * pixels
        image, d = np.indices((self.geometry.batch, depth.pixels)).reshape(2, -1)
        offsets = [image * s.image + d * s.depth for s in (self.y, *self.operands)]
        start = image * self.x.image + d * (depth.step * self.x.depth)
        return Planes(np.stack([start, *offsets], axis=1), rows, pixels)


def _all_taps(layer: _Layer) -> list[tuple[tuple[int, tuple[int | None, ...]], ...]]:
    return list(itertools.product(*(t.shifts for t in layer.taps)))


def _weights(context: BindContext, problem: ConvProblem, layer: _Layer) -> np.ndarray:
    """Packed weights of the only group, kept for the session."""
    g = problem.geometry
    # What the lanes see of the taps does not depend on how many pixels there are.
    seen = tuple(tuple(kernel for _, kernel in taps.shifts) for taps in layer.taps)
    how = (layer.isa.name, g.transposed, layer.interleave, seen)

    def make() -> np.ndarray:
        lanes = _lanes(problem.weights, layer)
        return pack_blocked(lanes, [layer.group], layer.isa.lanes, layer.interleave.lanes)

    return packed(context.cache, "conv.narrow", problem.weights, how, make)


def _lanes(weights: np.ndarray, layer: _Layer) -> np.ndarray:
    """The weights as [lanes of a sum, channels, taps], zero where a phase does not see a tap."""
    g, parts = layer.geometry, layer.interleave
    if g.transposed:
        weights = weights.swapaxes(0, 1)
    weights = weights.reshape(g.filters, g.channels, *(axis.kernel for axis in g.axes))
    taps = _all_taps(layer)
    made = np.zeros((g.filters, parts.rows, parts.columns, g.channels, len(taps)), np.float32)
    for t, (depth, height, width) in enumerate(taps):
        for (r, y), (c, x) in itertools.product(enumerate(height[1]), enumerate(width[1])):
            if y is not None and x is not None:
                made[:, r, c, :, t] = read(weights[:, :, depth[1][0], y, x])
    return made.reshape(parts.lanes, g.channels, len(taps))


def _bias(context: BindContext, bias: np.ndarray | None, parts: Interleave, lanes: int) -> np.ndarray:
    """The bias of every lane, kept for the session."""

    def make() -> np.ndarray:
        repeated = None if bias is None else np.repeat(bias, parts.rows * parts.columns)
        return padded_vector(repeated, 1, lanes)

    return packed(context.cache, "conv.narrow.bias", bias, (parts, lanes), make)


def _operands(
    context: BindContext, problem: ConvProblem, inputs: Sequence[TensorView | None], y: TensorView
) -> tuple[list[Source], list[Strided]]:
    """Memory and strides of the epilogue's operands: like the result, one number a channel, or one number."""
    sources: list[Source] = []
    strides = []
    epilogue: Epilogue = problem.epilogue
    for leaf, kind in zip(epilogue.leaves, epilogue.kinds, strict=True):
        each_image = kind is OperandKind.CHANNEL and len(leaf.shape) == len(y.shape) and leaf.shape[0] > 1
        once = Strided(problem.geometry.filters, 0, 0, 0, 0) if each_image else FIXED
        strides.append(strided(y, problem.geometry) if kind is OperandKind.TENSOR else once)
        if leaf.constant is not None:
            shape = y.shape if kind is OperandKind.TENSOR else leaf.constant.shape
            make = partial(_laid_out, leaf.constant, shape)
            sources.append(packed(context.cache, "conv.narrow.operand", leaf.constant, (shape,), make))
        else:
            assert leaf.operand is not None
            view = inputs[leaf.operand]
            assert view is not None
            sources.append(view)
    return sources, strides


def _laid_out(constant: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(constant, shape), np.float32).reshape(-1)
