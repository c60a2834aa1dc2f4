"""Concat in place: the operands' producers write straight into the result.

Possible where each operand is one contiguous piece of the result: along the first axis with more than one element of a
plain tensor, or along the channels of a blocked tensor at multiples of the block. Operands that cannot be produced in
place (graph inputs, constants, values already placed elsewhere) are copied there by a reorder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import PLAIN, Layout, Operand, TensorView, dense_strides, storable


@dataclass(frozen=True, slots=True)
class ConcatInPlace:
    """A Concat without a kernel; ``starts`` are the first positions of the operands along ``axis`` in the result."""

    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]
    axis: int
    starts: tuple[int, ...]
    kernel: str = "concat.in_place"

    def piece(self, result: TensorView, index: int, type_: TensorType) -> TensorView:
        """The view of operand ``index`` inside the view of the result."""
        start = self.starts[index]
        if result.layout == PLAIN:
            offset = start * dense_strides(result.shape)[self.axis]
            return replace(result, type=type_, strides=dense_strides(type_.static_shape), offset=result.offset + offset)
        return replace(result, type=type_, offset=result.offset + start // result.layout.block * result.strides[1])


def concats_in_place(node: Node, blocks: Sequence[int]) -> list[ConcatInPlace]:
    """The ways to run a Concat without a kernel."""
    if (
        node.op != "Concat"
        or any(v is None or not storable(v.type) for v in node.inputs)
        or not storable(node.output.type)
    ):
        return []
    shape = node.output.type.static_shape
    if not shape:
        return []
    axis = int(node.attrs["axis"]) % len(shape)
    sizes = [v.tensor.static_shape[axis] for v in node.inputs if v is not None]
    starts = tuple(sum(sizes[:i]) for i in range(len(sizes)))
    layouts = [PLAIN] if all(d == 1 for d in shape[:axis]) else []
    if axis == 1 and len(shape) >= 3:
        layouts += [Layout(b) for b in blocks if all(s % b == 0 for s in starts)]
    return [
        ConcatInPlace(
            tuple(Operand(layout) for _ in node.inputs), (Operand(layout, bordered=layout.block > 0),), axis, starts
        )
        for layout in layouts
    ]
