"""Copies between layouts, into and out of borders: what lowering inserts where layouts meet."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.types import TensorType
from autofusion.kernels import PLAIN, BindContext, Numerics, Offer, Operand, Target, TensorView
from autofusion_kernels_cpu.movement.bind import between
from autofusion_kernels_cpu.movement.box import region_boxes
from autofusion_kernels_cpu.movement.offers import ITEMSIZES
from autofusion_kernels_cpu.movement.problem import nominal_view
from autofusion_kernels_cpu.movement.schedule import copy_seconds
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.unsupported import Unsupported

NAME = "reorder"


def reorder_offer(type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
    """An offer that copies a tensor of `type_`, or None for element types and pairs of blocks that cannot be."""
    if type_.dtype.kind == "O" or type_.dtype.itemsize not in ITEMSIZES:
        return None
    if (source.layout != PLAIN or result.layout != PLAIN) and len(type_.static_shape) < 3:
        return None
    try:
        boxes = region_boxes(nominal_view(type_, source.layout), nominal_view(type_, result.layout), type_.static_shape)
    except Unsupported:
        return None
    return Offer(
        NAME,
        (Operand(source.layout, strided=True),),
        (Operand(result.layout, bordered=True, strided=True),),
        _bind,
        seconds=copy_seconds(boxes, type_.dtype.itemsize, target),
        numerics=Numerics.EXACT,
    )


def _bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
    source = inputs[0]
    assert source is not None
    return NativeKernel(tuple(between(source, outputs[0], context.target, NAME)))
