"""Channels-last operands brought to the IR's channels-first order and back, and windows read in either order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the channels of a tensor with ``spatial`` further axes lie."""

    last: bool
    spatial: int

    @property
    def rank(self) -> int:
        """Axes altogether."""
        return self.spatial + 2

    @property
    def channel(self) -> int:
        """The axis of the channels, in TensorFlow's order."""
        return self.rank - 1 if self.last else 1

    @property
    def axes(self) -> range:
        """The spatial axes, in TensorFlow's order."""
        return range(1, self.rank - 1) if self.last else range(2, self.rank)

    def first(self, call: Call, value: Value) -> Value:
        """``value`` with its channels on axis 1."""
        return call.transpose(value, [0, self.rank - 1, *self.axes]) if self.last else value

    def back(self, call: Call, value: Value) -> Value:
        """A result with channels on axis 1 in TensorFlow's order."""
        return call.transpose(value, [0, *range(2, self.rank), 1]) if self.last else value


def layout_of(call: Call, spatial: int = 2, attribute: str = "data_format") -> Layout:
    """The layout that the node states; channels last by default."""
    stated = call.attr(attribute, "NHWC")
    if stated in ("NHWC", "NDHWC", "NWC"):
        return Layout(True, spatial)
    if stated in ("NCHW", "NCDHW", "NCW"):
        return Layout(False, spatial)
    call.fail(f"data_format '{stated}' is not known; expected NHWC or NCHW (NDHWC or NCDHW)")


def per_axis(call: Call, layout: Layout, numbers: Sequence[int] | None, what: str) -> list[int]:
    """The spatial part of an attribute with one number for each axis; those of batch and channels must be 1."""
    if not numbers:
        return [1] * layout.spatial
    given = [int(n) for n in numbers]
    if len(given) != layout.rank:
        call.fail(f"{what} must have {layout.rank} numbers, found {given}")
    if given[0] != 1 or given[layout.channel] != 1:
        call.fail(f"{what} {given} reach over batch or channels, which is not supported")
    return [given[a] for a in layout.axes]


@dataclass(frozen=True, slots=True)
class Padding:
    """Padding of a window operator: begins and ends, or ``same`` where sizes must be known first."""

    begin: list[int]
    end: list[int]
    same: bool = False

    @property
    def attrs(self) -> dict[str, object]:
        """As the IR's attributes."""
        return {"auto_pad": "SAME_UPPER"} if self.same else {"pads": self.begin + self.end}


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Begin and end of SAME: the result has ceil(size / stride) elements, and the odd one goes to the end."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def padding_of(
    call: Call, layout: Layout, x: Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Padding:
    """The padding that the node states, explicit where the sizes of ``x`` (in TensorFlow's order) are known."""
    mode = call.attr("padding", "VALID")
    count = layout.spatial
    if mode == "VALID":
        return Padding([0] * count, [0] * count)
    if mode == "EXPLICIT":
        pairs = explicit_pairs(call, layout)
        return Padding([p[0] for p in pairs], [p[1] for p in pairs])
    if mode != "SAME":
        call.fail(f"padding '{mode}' is not known; expected SAME, VALID or EXPLICIT")
    sizes = [None] * count if x.shape is None else [x.shape[a] for a in layout.axes]
    if all(s == 1 for s in strides):  # then the amounts do not depend on the sizes
        totals = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        return Padding([t // 2 for t in totals], [t - t // 2 for t in totals])
    pairs = []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        if not isinstance(size, int):
            return Padding([], [], same=True)
        pairs.append(same_padding(size, k, s, d))
    return Padding([p[0] for p in pairs], [p[1] for p in pairs])


def explicit_pairs(call: Call, layout: Layout) -> list[tuple[int, int]]:
    """``explicit_paddings``: a begin and an end for each axis, in the order of the layout."""
    given = [int(n) for n in call.attr("explicit_paddings", [])]
    if len(given) != 2 * layout.rank:
        call.fail(f"explicit_paddings must have {2 * layout.rank} numbers, found {given}")
    pairs = list(zip(given[::2], given[1::2], strict=True))
    if any(pairs[0]) or any(pairs[layout.channel]):
        call.fail(f"explicit_paddings {given} pad batch or channels, which is not supported")
    return [pairs[a] for a in layout.axes]
