"""A convolution's shape, attributes and padding in one normal form: three spatial axes, explicit pads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from autofusion.ir.graph import Node
from autofusion.ir.operators import attribute

AXES = 3
"""Spatial axes of the normal form (depth, height, width); missing ones have size 1 and come first."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis. `low` is the padding before the first element; what comes after the last follows from `out`."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    low: int

    @property
    def high(self) -> int:
        """Zeros that the last window reads beyond the last element (never negative)."""
        return max((self.out - 1) * self.stride + (self.kernel - 1) * self.dilation - self.low - (self.size - 1), 0)

    @property
    def is_single(self) -> bool:
        """True for one element with nothing around it."""
        return self.size == self.out == self.kernel == 1 and self.low == 0


_SINGLE = Axis(1, 1, 1, 1, 1, 0)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Geometry:
    """`batch` images of `channels`, `groups` groups, `filters` output channels in all; `rank` spatial axes in the
    node, of which the last `leading` come first in the normal form.
    """

    batch: int
    channels: int
    filters: int
    groups: int
    rank: int
    axes: tuple[Axis, Axis, Axis]
    transposed: bool = False
    leading: int = 0
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = (self.batch, self.channels, self.filters, self.groups, self.rank, self.axes)
        object.__setattr__(self, "_hash", hash((*sizes, self.transposed, self.leading)))

    def __hash__(self) -> int:
        """Computed once: a geometry is looked up many times."""
        return self._hash

    @property
    def group_channels(self) -> int:
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        return self.filters // self.groups

    @property
    def taps(self) -> int:
        return math.prod(axis.kernel for axis in self.axes)

    @property
    def is_pointwise(self) -> bool:
        """True for a 1x1 convolution with stride 1 and no padding."""
        return all(a.kernel == 1 and a.stride == 1 and a.low == 0 and a.out == a.size for a in self.axes)

    @property
    def is_depthwise(self) -> bool:
        return self.group_channels == 1 and self.group_filters == 1 and not self.transposed

    @property
    def multiplications(self) -> float:
        """Multiply-adds that the definition asks for."""
        positions = math.prod(a.size if self.transposed else a.out for a in self.axes)
        inner, outer = self.group_channels, self.filters
        if self.transposed:
            inner, outer = self.group_filters, self.channels
        return float(self.batch * outer * positions * inner * self.taps)

    @property
    def border(self) -> tuple[int, ...]:
        """Zeros that the kernel reads around the input, over the node's axes in the order of pads."""
        own = self.node_order(self.axes)
        reach = [transposed_reach(a) for a in own] if self.transposed else [(a.low, a.high) for a in own]
        # Negative padding crops: the kernel starts inside.
        return tuple(max(low, 0) for low, _ in reach) + tuple(max(high, 0) for _, high in reach)

    def turned(self) -> Geometry:
        """The same with single axes leading that the node has last: kernels work along the width.

        Only for tensors whose elements follow each other along the new width as along the old one.
        """
        wide = [i for i, axis in enumerate(self.axes) if not axis.is_single]
        if not wide or wide[-1] == AXES - 1:
            return self
        leading = AXES - 1 - wide[-1]
        axes = _normal_form([_SINGLE if a.is_single else a for a in self.axes], _SINGLE, leading)
        return replace(self, axes=axes, leading=leading)

    def normal_form(self, values: Sequence[T], missing: T) -> tuple[T, T, T]:
        """One value for each axis of the normal form, from those of the node's spatial axes."""
        return _normal_form(values, missing, self.leading)

    def node_order(self, values: Sequence[T]) -> tuple[T, ...]:
        """One value for each spatial axis of the node, from those of the normal form."""
        return (*values[self.leading :], *values[: self.leading])[AXES - self.rank :]


def _normal_form(values: Sequence[T], missing: T, leading: int) -> tuple[T, T, T]:
    full = (missing,) * (AXES - len(values)) + tuple(values)
    depth, height, width = full[AXES - leading :] + full[: AXES - leading]
    return depth, height, width


def transposed_phases(axis: Axis) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """For each remainder of the output position: (first position, count, [(kernel index, input shift)]).

    Output position `first + stride * q` sums `input[q + shift] * weight[kernel index]`.
    """
    phases = []
    for first in range(min(axis.stride, axis.out)):
        taps = []
        for k in range(axis.kernel):
            distance = first + axis.low - k * axis.dilation
            if distance % axis.stride == 0:
                taps.append((k, distance // axis.stride))
        phases.append((first, -(-(axis.out - first) // axis.stride), taps))
    return phases


def transposed_reach(axis: Axis) -> tuple[int, int]:
    """Zeros needed before and after the input of a transposed convolution's axis."""
    low = high = 0
    for _, count, taps in transposed_phases(axis):
        for _, shift in taps:
            low = max(low, -shift)
            high = max(high, count - 1 + shift - (axis.size - 1))
    return low, high


def resized(geometry: Geometry, node: Node) -> Geometry:
    """What `geometry_of(node)` says once the node has other sizes than when it said `geometry`."""
    if geometry.transposed or (node.attrs.get("auto_pad") or "NOTSET") != "NOTSET":
        return geometry_of(node)  # where padding follows from the sizes
    x = node.inputs[0]
    assert x is not None
    shape, out = x.tensor.static_shape, node.output.tensor.static_shape
    g, missing = geometry, AXES - geometry.rank
    axes = [
        a if i < missing else Axis(shape[i - missing + 2], out[i - missing + 2], a.kernel, a.stride, a.dilation, a.low)
        for i, a in enumerate(g.axes)
    ]
    return Geometry(shape[0], g.channels, g.filters, g.groups, g.rank, (axes[0], axes[1], axes[2]))


def geometry_of(node: Node) -> Geometry:
    """The geometry of a Conv or ConvTranspose node with static types."""
    transposed = node.op == "ConvTranspose"
    x, w = node.inputs[0], node.inputs[1]
    assert x is not None and w is not None
    shape, weights, out = x.tensor.static_shape, w.tensor.static_shape, node.output.tensor.static_shape
    rank = len(shape) - 2
    strides = _spatial(attribute(node, "strides"), rank, 1)
    dilations = _spatial(attribute(node, "dilations"), rank, 1)
    pads = _spatial(attribute(node, "pads"), 2 * rank, 0)
    mode = attribute(node, "auto_pad") or "NOTSET"
    extra = _spatial(attribute(node, "output_padding"), rank, 0) if transposed else [0] * rank
    explicit = transposed and attribute(node, "output_shape") is not None
    axes = []
    for i in range(rank):
        size, result, kernel = shape[i + 2], out[i + 2], weights[i + 2]
        extent = (kernel - 1) * dilations[i] + 1
        low = 0 if mode == "VALID" else pads[i]
        if transposed:
            total = strides[i] * (size - 1) + extra[i] + extent - result
        else:
            total = (result - 1) * strides[i] + extent - size
        if explicit or mode.startswith("SAME"):
            # The larger half comes first, except for SAME_UPPER (also where an output shape is stated).
            padding = max(total, 0)
            low = padding // 2 if mode == "SAME_UPPER" else padding - padding // 2
        axes.append(Axis(size, result, kernel, strides[i], dilations[i], low))
    groups = attribute(node, "group")
    filters = weights[1] * groups if transposed else weights[0]
    normal = _normal_form(axes, _SINGLE, 0)
    return Geometry(shape[0], shape[1], filters, groups, rank, normal, transposed)


def _spatial(stated: Sequence[int] | None, count: int, default: int) -> list[int]:
    return [default] * count if stated is None else [int(v) for v in stated]
