"""Offers for convolutions: which algorithms can run a node, and what each would cost."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.cost.target import Target
from autofusion.ir.graph import Node
from autofusion.lowering.contract import Layout, Offer, Operand, Refused
from autofusion_kernels_cpu.codegen.isa import host_isa
from autofusion_kernels_cpu.conv import direct
from autofusion_kernels_cpu.conv.anchored import Anchored, anchored
from autofusion_kernels_cpu.conv.direct import Form
from autofusion_kernels_cpu.estimate import Estimate, roofline


def offers(node: Node, target: Target) -> Sequence[Offer] | Refused:
    """All algorithms that can run the node, on blocked tensors, and on a plain image if it has few channels."""
    parts = anchored(node)
    if isinstance(parts, str):
        return Refused(parts)
    g = parts.geometry
    made = [_direct(parts, target, Form.DEPTHWISE if g.is_depthwise else Form.BLOCKED)]
    # An epilogue that reads the image as well wants it in blocks.
    shared = any(leaf.operand == parts.operand for leaf in parts.epilogue.leaves)
    if g.channels < target.lanes and g.groups == 1 and not g.transposed and not shared:
        made.append(_direct(parts, target, Form.PLANAR))
    return made


def estimate(parts: Anchored, target: Target, cycles: float, weight_bytes: float) -> Estimate:
    """Time of that many cycles of one core's arithmetic, or of the traffic if it is slower."""
    tensors = [parts.anchor.inputs[0], parts.anchor.output, *(leaf.value for leaf in parts.epilogue.leaves)]
    moved = weight_bytes + sum(v.tensor.nbytes for v in tensors if v is not None)
    # Two vector FMAs a cycle make the peak.
    return roofline(target, cycles * 4 * target.lanes, moved)


def _direct(parts: Anchored, target: Target, form: Form) -> Offer:
    layout = Layout(target.lanes)
    cycles = direct.cost(host_isa(target.isa), parts.geometry, form)
    price = estimate(parts, target, cycles, parts.weights.nbytes)
    return Offer(
        f"conv.{form.value}",
        parts.operands(Layout() if form is Form.PLANAR else layout, parts.geometry.border, layout),
        (Operand(layout, bordered=True),),
        direct.DirectConv(parts, form, price.workers),
        seconds=price.seconds,
    )
