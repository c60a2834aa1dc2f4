"""Offers for the movement operators: one for each combination of layouts that an operator's moves can deal with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels import (
    PLAIN,
    BindContext,
    BindFunction,
    Layout,
    Numerics,
    Offer,
    Operand,
    Refusal,
    Target,
    TensorView,
)
from autofusion_kernels_cpu.movement.bind import copy_steps
from autofusion_kernels_cpu.movement.lookup import lookup_offers
from autofusion_kernels_cpu.movement.operators import MOVEMENTS
from autofusion_kernels_cpu.movement.problem import Movement, nominal_view
from autofusion_kernels_cpu.movement.schedule import copy_seconds
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.support import again, constant, operands, result, static
from autofusion_kernels_cpu.unsupported import Unsupported

ITEMSIZES = (1, 2, 4, 8)


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Movement of elements of 1, 2, 4 or 8 bytes on plain tensors, and of float32 on blocked ones."""
    type_ = static(node, 0)
    outs = [result(node, i) for i in range(len(node.outputs))]
    if type_ is None or any(out is None for out in outs):
        return Refusal("its shapes are not static")
    if type_.dtype.kind == "O" or type_.dtype.itemsize not in ITEMSIZES:
        return Refusal(f"it moves elements of type {type_.dtype}")
    if any(out is None or out.dtype.kind == "O" or out.dtype.itemsize not in ITEMSIZES for out in outs):
        return Refusal("it makes elements of another type")
    if node.op == "Gather" and constant(node, 1) is None:
        return lookup_offers(node, target)
    movement = _movement(node)
    if isinstance(movement, Refusal):
        return movement
    made: list[Offer] = []
    refusals: list[Refusal] = []
    for source, out in movement.layouts:
        layouts = Layout(source * target.lanes), Layout(out * target.lanes)
        try:
            offer = _offer(movement, node, layouts, target)
        except Unsupported as no:
            refusals.append(no.refusal)
            continue
        if offer is not None:
            made.append(offer)
    return made or refusals[0]


def _can_block(type_: TensorType) -> bool:
    return 3 <= len(type_.static_shape) <= 5 and type_.dtype.kind == "f" and type_.dtype.itemsize == 4


def _movement(node: Node) -> Movement | Refusal:
    """What a node of static shapes moves, or why these kernels do not."""
    try:
        return MOVEMENTS[node.op](node)
    except Unsupported as no:
        return no.refusal


def _offer(movement: Movement, node: Node, layouts: tuple[Layout, Layout], target: Target) -> Offer | None:
    source, out = layouts
    outs = [value.tensor for value in node.outputs]
    # Constants always come plain; regions do not mind the mixture.
    variable = [i for i in movement.moved if constant(node, i) is None]
    moved = [static(node, i) for i in movement.moved]
    if source != PLAIN and not all(t is not None and _can_block(t) for t in moved):
        return None
    if out != PLAIN and not all(_can_block(t) for t in outs):
        return None
    inputs = []
    for i in range(len(node.inputs)):
        type_ = static(node, i)
        inputs.append(None if type_ is None else nominal_view(type_, source if i in variable else PLAIN))
    stages = movement.moves(inputs, [nominal_view(t, out) for t in outs])
    boxes = [move.box for stage in stages for move in stage]
    name = f"{movement.kernel}.{'plain' if source == out == PLAIN else 'blocked' if source == out else 'reorder'}"
    return Offer(
        name,
        operands(node, {i: Operand(source) for i in variable}),
        tuple(Operand(out, bordered=out != PLAIN) for _ in outs),
        _bind(movement, name),
        seconds=copy_seconds(boxes, outs[0].dtype.itemsize, target),
        numerics=Numerics.EXACT,
        resize=partial(_resized, node, layouts, target),
    )


def _resized(node: Node, layouts: tuple[Layout, Layout], target: Target) -> Offer | None:
    try:
        return again(partial(_movement, node), _offer, node, layouts, target)
    except Unsupported:
        return None


def _bind(movement: Movement, name: str) -> BindFunction:
    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
        stages = movement.moves(inputs, outputs)
        return NativeKernel(tuple(step for stage in stages for step in copy_steps(stage, context.target, name)))

    return bind
