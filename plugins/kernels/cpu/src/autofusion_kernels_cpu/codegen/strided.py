"""Where the elements of a moved tensor are, without moving them.

An axis is a list of parts ``(size, stride)``, outermost first, whose sizes multiply to the axis's: merging two axes
that do not lie one after the other (heads that share a key with the group that reads it) leaves two parts. An axis of
size 1 has none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from autofusion.ir.graph import Node
from autofusion.ir.operators import attribute

Part = tuple[int, int]
Axis = tuple[Part, ...]


def axes_of(shape: Sequence[int], strides: Sequence[int]) -> list[Axis]:
    """The axes of a view."""
    return [() if size == 1 else ((size, stride),) for size, stride in zip(shape, strides, strict=True)]


def moved(axes: Sequence[Axis], nodes: Iterable[Node]) -> list[Axis] | None:
    """The axes behind movement by ``nodes`` (Transpose, Expand, Reshape, Squeeze, Unsqueeze) of static shapes.

    None where that is not a way to walk over the same memory.
    """
    found: list[Axis] | None = list(axes)
    for node in nodes:
        assert found is not None
        shape = node.output.tensor.static_shape
        if 0 in shape:
            return None
        if node.op == "Transpose":
            perm = attribute(node, "perm") or range(len(shape))[::-1]
            found = [found[i] for i in perm]
        elif node.op == "Expand":
            aligned = [()] * (len(shape) - len(found)) + found
            found = [axis or (((size, 0),) if size > 1 else ()) for axis, size in zip(aligned, shape, strict=True)]
        else:
            found = _regrouped(found, shape)
            if found is None:
                return None
    return found


def _regrouped(axes: Sequence[Axis], shape: Sequence[int]) -> list[Axis] | None:
    """The same elements in the same order, cut into axes of other sizes."""
    left = [part for axis in axes for part in axis][::-1]
    result: list[Axis] = []
    for wanted in shape:
        axis: list[Part] = []
        while wanted > 1:
            size, stride = left.pop()
            if wanted % size == 0:
                axis.append((size, stride))
                wanted //= size
            elif size % wanted == 0:
                rest = size // wanted
                axis.append((wanted, stride * rest))
                left.append((rest, stride))
                wanted = 1
            else:
                return None
        result.append(merged(axis))
    return result


def merged(parts: Sequence[Part]) -> Axis:
    """Neighbouring parts that lie one after the other are one."""
    found: list[Part] = []
    for size, stride in parts:
        if size == 1:
            continue
        if found and found[-1][1] == stride * size:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return tuple(found)


def stride_of(axis: Axis) -> int | None:
    """The one stride of an axis, 0 for one element; None if it has several."""
    if len(axis) > 1:
        return None
    return axis[0][1] if axis else 0


def aligned(operands: Sequence[Sequence[Axis]], sizes: Sequence[int]) -> tuple[list[int], list[tuple[int, ...]]] | None:
    """``(sizes, strides of each operand)`` of axes cut so that every operand has one stride along each.

    The operands' axes are those of ``sizes``, or have one element there. None if they cannot be cut alike.
    """
    cut: list[int] = []
    strides: list[list[int]] = [[] for _ in operands]
    for i, whole in enumerate(sizes):
        marks = {whole}
        for axes in operands:
            inner = 1
            for size, _ in reversed(axes[i]):
                inner *= size
                marks.add(inner)
        bounds = [1, *sorted(marks - {1})]
        if any(high % low for low, high in itertools.pairwise(bounds)):
            return None
        for low, high in reversed(list(itertools.pairwise(bounds))):
            cut.append(high // low)
            for axes, own in zip(operands, strides, strict=True):
                own.append(_stride_at(axes[i], low))
    return cut, [tuple(own) for own in strides]


def _stride_at(axis: Axis, step: int) -> int:
    """Elements between neighbours that are ``step`` places apart along the axis."""
    inner = 1
    for size, stride in reversed(axis):
        if step < inner * size:
            return stride * (step // inner)
        inner *= size
    return 0
