"""Offers for convolutions: which algorithms can run a node, and what each would cost."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Node, Value
from autofusion.kernels import Layout, Numerics, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import host_isa
from autofusion_kernels_cpu.conv import direct, image, narrow, winograd
from autofusion_kernels_cpu.conv.anchored import Anchored, anchored
from autofusion_kernels_cpu.conv.direct import Form
from autofusion_kernels_cpu.conv.price import seconds, useful_threads
from autofusion_kernels_cpu.conv.products import Interleave


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """All algorithms that can run the node, on blocked tensors, and on a plain image if it has few channels."""
    parts = anchored(node)
    if isinstance(parts, str):
        return Refusal(parts)
    g = parts.geometry
    made = [_direct(parts, target, Form.DEPTHWISE if g.is_depthwise else Form.BLOCKED)]
    # An epilogue that reads the image as well wants it in blocks.
    shared = any(leaf.operand == parts.operand for leaf in parts.epilogue.leaves)
    if g.channels < target.lanes and g.groups == 1 and not g.transposed and not shared:
        made.append(_image(parts, target) if image.applies(g) else _direct(parts, target, Form.PLANAR))
    interleave = narrow.interleave_of(g, target.lanes)
    if interleave is not None and not shared:
        made.append(_narrow(parts, interleave, target))
    if winograd.applies(g):
        made += [_winograd(parts, target, tile) for tile in winograd.TILES]
    return made


def _moved(parts: Anchored, source: Layout, result: Layout) -> int:
    """Bytes of the operands and the result, in these layouts."""
    return (
        stored_bytes(parts.anchor.inputs[0], source)
        + stored_bytes(parts.anchor.output, result)
        + sum(stored_bytes(leaf.value, result) for leaf in parts.epilogue.leaves)
    )


def stored_bytes(value: Value | None, layout: Layout) -> int:
    """Bytes of a tensor, whole channel blocks included."""
    if value is None:
        return 0
    shape = value.tensor.static_shape
    if not layout.block or len(shape) < 3:
        return value.tensor.nbytes
    return value.tensor.nbytes // max(shape[1], 1) * -(-shape[1] // layout.block) * layout.block


def _direct(parts: Anchored, target: Target, form: Form) -> Offer:
    layout = Layout(target.lanes)
    cycles = direct.cost(host_isa(target.isa), parts.geometry, form)
    source = Layout() if form is Form.PLANAR else layout
    weights, tensors = parts.weights.nbytes, _moved(parts, source, layout)
    workers = useful_threads(target, seconds(target, cycles, weights, 0, tensors, 1))
    return Offer(
        f"conv.{form.value}",
        parts.operands(source, parts.geometry.border, layout),
        (Operand(layout, bordered=True),),
        direct.DirectConv(parts, form, workers),
        seconds=seconds(target, cycles / workers, weights, 0, tensors, workers),
    )


def _image(parts: Anchored, target: Target) -> Offer:
    layout = Layout(target.lanes)
    cycles = direct.cost(host_isa(target.isa), parts.geometry, Form.PLANAR)
    weights, tensors = parts.weights.nbytes, _moved(parts, Layout(), layout)
    workers = useful_threads(target, seconds(target, cycles, weights, 0, tensors, 1))
    kernel = image.ImageConv(parts, target, workers)
    return Offer(
        "conv.image",
        parts.operands(Layout(), (), layout),
        (Operand(layout, bordered=True),),
        kernel,
        seconds=seconds(target, cycles / workers, weights, 0, tensors, workers),
        scratch=kernel.scratch_bytes,
    )


def _narrow(parts: Anchored, interleave: Interleave, target: Target) -> Offer:
    cycles = narrow.cost(host_isa(target.isa), parts.geometry, interleave)
    weights, tensors = parts.weights.nbytes, _moved(parts, Layout(target.lanes), Layout())
    workers = useful_threads(target, seconds(target, cycles, weights, 0, tensors, 1))
    return Offer(
        "conv.narrow",
        parts.operands(Layout(target.lanes), parts.geometry.border, Layout()),
        (Operand(),),
        narrow.NarrowConv(parts, interleave, workers),
        seconds=seconds(target, cycles / workers, weights, 0, tensors, workers),
    )


def _winograd(parts: Anchored, target: Target, tile: int) -> Offer:
    layout = Layout(target.lanes)
    plan = winograd.plan(parts.geometry, tile, _moved(parts, layout, layout), target)
    kernel = winograd.Winograd(parts, plan, target)
    return Offer(
        f"conv.winograd{tile}",
        parts.operands(layout, winograd.border(parts.geometry, tile), layout),
        (Operand(layout, bordered=True),),
        kernel,
        seconds=plan.seconds,
        scratch=kernel.scratch_bytes,
        numerics=Numerics.APPROXIMATE,
    )
