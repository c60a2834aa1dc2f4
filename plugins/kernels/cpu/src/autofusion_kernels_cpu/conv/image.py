"""Convolutions that read a plain image as it is, without a border around it.

The first layer of a network reads the caller's array. Its windows reach beyond the edges, and a copy of the whole image
with zeros around it would take half as long as the layer itself. Instead each thread copies the few lines that a block
of result rows reads into scratch memory, which stays in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.kernels import BindContext, Target, TensorView
from autofusion_kernels_cpu.conv import generator
from autofusion_kernels_cpu.conv.anchored import Anchored, Strided
from autofusion_kernels_cpu.conv.direct import Binding, Form, offset
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.products import Structure
from autofusion_kernels_cpu.conv.tasks import Group, Plane, staged_parameters
from autofusion_kernels_cpu.conv.tiles import widths
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref

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


class ImageConv:
    """Binds one convolution to views. `workers` is how many threads are worth using."""

    def __init__(self, parts: Anchored, target: Target, workers: int) -> None:
        self.parts, self.workers = parts, workers
        self.staging = staging(parts.geometry, target, workers)

    @property
    def scratch_bytes(self) -> int:
        """Lines of all threads."""
        return 4 * self.staging.floats * self.workers

    def __call__(
        self, context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]
    ) -> NativeKernel:
        x = inputs[self.parts.operand]
        assert x is not None
        binding = _Staged(self.parts, Form.PLANAR, self.workers, context, inputs, x, outputs[0])
        binding.stage_in(self.staging)
        return NativeKernel(tuple(binding.steps()))


class _Staged(Binding):
    def stage_in(self, made: Staging) -> None:
        """Read from scratch memory of this layout."""
        self.staging, self.image = made, self.xs
        self.xs = Strided(0, made.lines * made.line, 0, made.line, 1)

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
        structure = Structure(self.isa, pixel, output_pixel, vectors, widths(self.isa, vectors), staged=True)
        made, threads = self.staging, self.target.threads
        header = [*self._header(), made.line // self.lanes, self.geometry.axes[2].low]
        blocks = [self._blocks(thread) for thread in range(self.workers)]
        params = staged_parameters(structure, self.epilogue, header, groups, blocks, self._rows(), threads)
        assert self.context.scratch is not None
        own = (Ref(self.context.scratch), Ref(packed), Ref(bias), Ref(self.y))
        refs = (*own, *(o.ref for o in self.operands), Ref(self.x))
        function = generator.kernel(structure, self.epilogue)
        return NativeStep(function, refs, params, True, f"conv.image{vectors}", self.workers)

    def _blocks(self, thread: int) -> list[tuple[Plane, np.ndarray]]:
        """A thread's blocks of result rows, none across the end of an image, and the lines that each reads."""
        rows, total = self.geometry.axes[1].out, self.geometry.batch * self.geometry.axes[1].out
        row, last = total * thread // self.workers, total * (thread + 1) // self.workers
        made = []
        while row < last:
            image, first = divmod(row, rows)
            count = min(self.staging.rows, last - row, rows - first)
            made.append(self._block(thread, image, first, count))
            row += count
        return made

    def _block(self, thread: int, image: int, first: int, count: int) -> tuple[Plane, np.ndarray]:
        height, width = self.geometry.axes[1:]
        base = thread * self.staging.floats
        place = (0, first, 0)
        plane = Plane(
            # The table's offsets count from the first pixel, zeros before it included.
            base + height.low * self.staging.line + width.low,
            offset(self.ys, image, place),
            tuple(offset(o.strides, image, place) for o in self.operands),
            count,
            width.out,
        )
        lines = (count - 1) * height.stride + (height.kernel - 1) * height.dilation + 1
        y = first * height.stride - height.low + np.arange(lines)
        channel = np.arange(self.geometry.channels)[:, None]
        inside = (y >= 0) & (y < height.size)
        source = image * self.image.image + channel * self.image.block + np.where(inside, y, 0) * self.image.height
        target = base + channel * self.xs.block + np.arange(lines) * self.staging.line
        length = np.where(inside, width.size, 0) + 0 * channel
        return plane, np.stack([source, target, length], axis=-1).reshape(-1, 3).astype(np.int64)
