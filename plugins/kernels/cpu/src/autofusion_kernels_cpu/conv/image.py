"""Convolutions that read a plain image as it is, without a border around it.

The first layer of a network reads the caller's array. Its windows reach beyond the edges, and a copy of the whole image
with zeros around it would take half as long as the layer itself. Instead each thread copies the few lines that a block
of result rows reads into scratch memory, which stays in the second-level cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from autofusion.kernels import BindContext, Layout, Offer, Operand, Refusal, Target, TensorView
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.conv.direct import MORE_BIAS, why_not_planar
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.kernel import kernel
from autofusion_kernels_cpu.conv.memory import Strided, bind_epilogue, strided
from autofusion_kernels_cpu.conv.packing import packed_bias, packed_weights
from autofusion_kernels_cpu.conv.problem import ConvProblem
from autofusion_kernels_cpu.conv.schedule import cost
from autofusion_kernels_cpu.conv.steps import KEPT, Layer, LayerData, StepData
from autofusion_kernels_cpu.conv.tasks import Planes, staged_task_data
from autofusion_kernels_cpu.conv.variant import Variant, cycles_of
from autofusion_kernels_cpu.native.program import NativeKernel, independent
from autofusion_kernels_cpu.support import again

# Share of the second-level cache for the lines of a block.
_CACHE_SHARE = 0.125


@dataclass(frozen=True, slots=True)
class Staging:
    """A block of `rows` result rows reads `lines` lines of `line` floats for each channel."""

    line: int
    rows: int
    lines: int
    channels: int

    @property
    def floats(self) -> int:
        """Scratch memory of a thread."""
        return self.channels * self.lines * self.line


def applies(geometry: Geometry) -> bool:
    """True for convolutions over one or two axes that read beyond the edges of the image."""
    depth, height, width = geometry.axes
    flat = depth.kernel == depth.size == depth.out == depth.stride == 1 and depth.low == 0
    return flat and height.low >= 0 and width.low >= 0 and any(geometry.border)


def staging(geometry: Geometry, target: Target, workers: int) -> Staging:
    """How many rows at a time: few enough for the cache, and as many blocks for each thread."""
    _, height, width = geometry.axes
    line = -(-(width.low + width.size + width.high) // target.lanes) * target.lanes
    reach = (height.kernel - 1) * height.dilation + 1
    fitting = int(target.l2_bytes * _CACHE_SHARE) // (4 * geometry.channels * line)
    most = max(1, (fitting - reach) // height.stride + 1)
    share = -(-geometry.batch * height.out // workers)
    rows = -(-share // -(-share // min(most, share)))
    return Staging(line, rows, (rows - 1) * height.stride + reach, geometry.channels)


def offer(problem: ConvProblem, target: Target) -> Offer | Refusal:
    """On a plain image of few channels, whose lines are staged."""
    no = why_not_planar(problem, target)
    if no is not None:
        return no
    if not applies(problem.geometry):
        return Refusal("it does not read beyond the edges of an image")
    layout = Layout(target.lanes)
    cycles = cycles_of(isa_of(target), problem.geometry, Variant.PLANAR)
    seconds, workers = cost(target, cycles, problem.weights.nbytes, problem.moved_bytes(Layout(), layout))
    return Offer(
        "conv.image",
        problem.operands(Layout(), (), layout),
        (Operand(layout, bordered=True),),
        partial(bind, problem, workers),
        seconds=seconds,
        resize=partial(again, problem.resized, offer, target),
        scratch=scratch_bytes(problem.geometry, target, workers),
    )


def scratch_bytes(geometry: Geometry, target: Target, workers: int) -> int:
    """Lines of all threads."""
    return 4 * staging(geometry, target, workers).floats * workers


def bind(
    problem: ConvProblem,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step for each number of channel blocks that the groups of output channels have."""
    x, y = inputs[problem.operand], outputs[0]
    assert x is not None and context.scratch is not None
    g, isa, epilogue = problem.geometry, isa_of(context.target), problem.epilogue
    blocks = -(-g.filters // isa.lanes)
    operands = bind_epilogue(context, epilogue, inputs, g, blocks, isa.lanes)
    made = staging(g, context.target, workers)
    staged = Strided(0, made.lines * made.line, 0, made.line, 1)
    strides = tuple(o.strides for o in operands)
    layer = Layer(g, Variant.PLANAR, staged, strided(y, g), strides, epilogue.kinds, workers, context.target)
    image = strided(x, g)
    data = KEPT.get((layer, image, made), partial(_layer_data, layer, image, made), lambda data: data.nbytes)
    buffers = {
        "input": context.scratch,
        "weights": packed_weights(context, problem, Variant.PLANAR, data.filters),
        "bias": packed_bias(context, problem.bias, blocks + MORE_BIAS, isa.lanes),
        "output": y,
        "image": x,
        **{f"operand{i}": operand.source for i, operand in enumerate(operands)},
    }
    steps = [
        kernel(step.structure, epilogue).step(
            buffers, step.params, step.data, label=f"conv.image{step.structure.vectors}", workers=step.workers
        )
        for step in data.steps
    ]
    return NativeKernel(independent(steps))


def _layer_data(layer: Layer, image: Strided, made: Staging) -> LayerData:
    parts, planes, rows, lines, counts = _blocks(layer, image, made)
    found = layer.groupings(layer.geometry.axes[2].out)
    params = layer.params() | {
        "line_vectors": made.line // layer.isa.lanes,
        "line_low": layer.geometry.axes[2].low,
    }
    steps, threads = [], layer.target.threads
    for grouping in found.sizes:
        structure, groups = layer.structure(grouping.vectors, staged=True), layer.groups(grouping)
        data = staged_task_data(structure, groups, planes, rows, parts, lines, counts, threads)
        steps.append(StepData(structure, params, data, layer.workers))
    return LayerData(found.filters, tuple(steps))


def _blocks(
    layer: Layer, image: Strided, made: Staging
) -> tuple[np.ndarray, Planes, np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of result rows, none across the end of an image or of a thread's share: thread of each, their planes, how
    many rows each has, the lines that they read (int64 [n, 3]) and how many each reads.
    """
    g = layer.geometry
    _, height, width = g.axes
    # Rows of all images, cut where a thread's share or an image ends, and then as the cache wants it.
    total = g.batch * height.out
    shares = [total * t // layer.workers for t in range(1, layer.workers + 1)]
    cuts = sorted({0, *shares, *range(0, total, height.out), total})
    first = np.concatenate([np.arange(a, b, made.rows) for a, b in itertools.pairwise(cuts)])
    count = np.diff(np.append(first, total))
    part = np.searchsorted(shares, first, side="right")
    number, row = first // height.out, first % height.out

    def positions(s: Strided) -> np.ndarray:
        return number * s.image + row * s.height

    base = part * made.floats
    # The table's offsets count from the first pixel, zeros before it included.
    start = base + height.low * made.line + width.low
    offsets = np.stack([start, *(positions(s) for s in (layer.y, *layer.operands))], axis=1)
    planes = Planes(offsets, made.rows, width.out)
    # [blocks, channels, lines]; blocks of fewer rows read fewer lines.
    own = (count - 1) * height.stride + (height.kernel - 1) * height.dilation + 1
    line = np.arange(made.lines)
    y = (row * height.stride - height.low)[:, None, None] + line
    channel = np.arange(g.channels)[:, None]
    inside = (y >= 0) & (y < height.size)
    source = number[:, None, None] * image.image + channel * image.block + np.where(inside, y, 0) * image.height
    target = base[:, None, None] + channel * layer.x.block + line * made.line
    length = np.where(inside, width.size, 0)
    stacked = np.stack(np.broadcast_arrays(source, target, length), axis=-1)
    lines = stacked[np.broadcast_to(line < own[:, None, None], stacked.shape[:-1])].astype(np.int64)
    return part, planes, count, lines, own * g.channels
