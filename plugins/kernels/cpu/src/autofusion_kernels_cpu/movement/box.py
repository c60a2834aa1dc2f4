"""Boxes: strided copies of any rank, which all movement of elements comes down to.

A slice, a transposition, a concatenation or a change of layout is a list of boxes; what is left to do for a kernel is
the shape that a box has once neighbouring axes are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofusion.kernels import PLAIN, TensorView
from autofusion_kernels_cpu.unsupported import Unsupported


@dataclass(frozen=True, slots=True)
class Box:
    """Copy `dims` elements from strides `source` to strides `result`; all counts are in elements of the tensors.

    Source strides may be zero (repeat) or negative (reverse); result positions are distinct.
    """

    dims: tuple[int, ...]
    source: tuple[int, ...]
    result: tuple[int, ...]
    source_offset: int = 0
    result_offset: int = 0

    def simplified(self) -> Box | None:
        """The same copy with as few axes as possible, in the order of the result's memory; None if it is empty."""
        if 0 in self.dims:
            return None
        axes = [a for a in zip(self.dims, self.source, self.result, strict=True) if a[0] > 1]
        axes.sort(key=lambda axis: -abs(axis[2]))
        merged: list[tuple[int, int, int]] = []
        for dim, source, result in axes:
            if merged and merged[-1][1] == dim * source and merged[-1][2] == dim * result:
                merged[-1] = (merged[-1][0] * dim, source, result)
            else:
                merged.append((dim, source, result))
        dims, source_strides, result_strides = (tuple(axis[i] for axis in merged) for i in range(3))
        return Box(dims, source_strides, result_strides, self.source_offset, self.result_offset)


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a tensor: where it starts on each axis, and the step from one position to the next."""

    start: tuple[int, ...]
    step: tuple[int, ...]

    @staticmethod
    def whole(rank: int) -> Region:
        """All of a tensor of that rank."""
        return Region((0,) * rank, (1,) * rank)


def region_boxes(
    source: TensorView,
    result: TensorView,
    sizes: Sequence[int],
    *,
    source_region: Region | None = None,
    result_region: Region | None = None,
    perm: Sequence[int] | None = None,
) -> list[Box]:
    """Boxes that copy a region of `source` to a region of `result`, of `sizes` along the result's axes.

    Axis i of the result is axis `perm[i]` of the source. Either may be blocked; raises Unsupported for blocked
    channels that are reordered or that become another blocked axis.
    """
    rank = len(sizes)
    order = list(perm) if perm is not None else list(range(rank))
    here = source_region or Region.whole(rank)
    there = result_region or Region.whole(rank)
    split = {order.index(1)} if source.layout != PLAIN else set()
    split |= {1} if result.layout != PLAIN else set()
    if len(split) > 1:
        raise Unsupported("it turns blocked channels into another axis of a blocked tensor")
    dims, source_strides, result_strides = [], [], []
    source_offset = result_offset = 0
    for axis, origin in enumerate(order):
        if axis in split:
            continue
        dims.append(sizes[axis])
        source_strides.append(source.strides[origin] * here.step[origin])
        result_strides.append(result.strides[axis] * there.step[axis])
        source_offset += here.start[origin] * source.strides[origin]
        result_offset += there.start[axis] * result.strides[axis]
    if not split:
        return [Box(tuple(dims), tuple(source_strides), tuple(result_strides), source_offset, result_offset)]
    (channel,) = split
    origin = order[channel]
    left = _Channels.of(source, origin, here)
    right = _Channels.of(result, channel, there)
    return [
        Box(
            (*dims, *runs.dims),
            (*source_strides, *runs.source),
            (*result_strides, *runs.result),
            source_offset + runs.source_offset,
            result_offset + runs.result_offset,
        )
        for runs in _channel_boxes(left, right, sizes[channel], result.shape[channel])
    ]


@dataclass(frozen=True, slots=True)
class _Channels:
    """The axis of a tensor that holds channels: blocked, or plain with block 0."""

    block: int
    start: int
    stride: int
    """Between blocks, or between channels."""

    @staticmethod
    def of(view: TensorView, axis: int, region: Region) -> _Channels:
        if view.layout == PLAIN:
            return _Channels(0, region.start[axis] * view.strides[axis], view.strides[axis] * region.step[axis])
        if region.step[axis] != 1:
            raise Unsupported("it steps over channels of a blocked tensor")
        return _Channels(view.layout.block, region.start[axis], view.strides[1])

    @property
    def lane(self) -> int:
        """Stride between channels of one block."""
        return 1 if self.block else self.stride

    def offset(self, channel: int) -> int:
        """Of the region's channel, in elements."""
        if not self.block:
            return self.start + channel * self.stride
        absolute = self.start + channel
        return absolute // self.block * self.stride + absolute % self.block

    def room(self, channel: int) -> int:
        """Channels from this one to the end of its block."""
        return self.block - (self.start + channel) % self.block if self.block else 1 << 62

    def per_block(self, block: int) -> int:
        """Stride between runs of `block` channels."""
        return self.stride if self.block else self.stride * block


def _channel_boxes(source: _Channels, result: _Channels, count: int, channels: int) -> list[Box]:
    """Boxes over the channel axis alone: whole blocks together if they coincide, otherwise run by run."""
    block = source.block or result.block
    if source.block and result.block and source.block != result.block:
        raise Unsupported("its operand and result are blocked differently")
    if all(side.start % block == 0 for side in (source, result) if side.block):
        whole, rest = divmod(count, block)
        if rest and source.block and result.block and result.start + count == channels:
            # The lanes past the last channel are nobody's: copy them along and keep the vectors whole.
            whole, rest = whole + 1, 0
        boxes = []
        if whole:
            strides = [(side.per_block(block), side.lane) for side in (source, result)]
            boxes.append(Box((whole, block), strides[0], strides[1], source.offset(0), result.offset(0)))
        if rest:
            first = whole * block
            boxes.append(Box((rest,), (source.lane,), (result.lane,), source.offset(first), result.offset(first)))
        return boxes
    boxes, channel = [], 0
    while channel < count:
        run = min(source.room(channel), result.room(channel), count - channel)
        boxes.append(Box((run,), (source.lane,), (result.lane,), source.offset(channel), result.offset(channel)))
        channel += run
    return boxes
