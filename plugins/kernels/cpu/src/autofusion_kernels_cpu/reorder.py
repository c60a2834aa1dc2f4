"""Copies between layouts, into borders and slices: what lowering puts between kernels that want different ones."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.cost.target import Target
from autofusion.ir.types import TensorType
from autofusion.lowering.contract import BindContext, Numerics, Offer, Operand, TensorView
from autofusion_kernels_cpu.movement.box import UnsupportedMove, region_boxes
from autofusion_kernels_cpu.movement.movement import nominal_view
from autofusion_kernels_cpu.movement.offer import ITEMSIZES
from autofusion_kernels_cpu.movement.steps import between, copy_seconds
from autofusion_kernels_cpu.native.program import NativeKernel


def reorder_offer(type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
    """An offer that copies a tensor of `type_` from one layout to another, inside any border; None if it cannot."""
    if type_.dtype.kind == "O" or type_.dtype.itemsize not in ITEMSIZES:
        return None
    blocks = {source.layout.block, result.layout.block} - {0}
    if blocks - {target.lanes} or (blocks and (type_.rank or 0) < 3):
        return None
    try:
        boxes = region_boxes(nominal_view(type_, source.layout), nominal_view(type_, result.layout), type_.static_shape)
    except UnsupportedMove:
        return None

    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
        view = inputs[0]
        assert view is not None
        return NativeKernel(tuple(between(view, outputs[0], context.target, "reorder")))

    wanted = Operand(result.layout, result.border, bordered=True, strided=True)
    seconds = copy_seconds(boxes, type_.dtype.itemsize, target)
    return Offer(
        f"reorder.{source.layout}_to_{result.layout}", (source,), (wanted,), bind, seconds, numerics=Numerics.EXACT
    )
