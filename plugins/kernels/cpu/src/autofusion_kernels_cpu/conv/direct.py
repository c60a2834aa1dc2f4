"""The direct convolution: dense, grouped, depthwise, strided, dilated, transposed, over 1 to 3 spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from autofusion.kernels import BindContext, Layout, Offer, Operand, Refusal, Target, TensorView
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.conv.kernel import kernel
from autofusion_kernels_cpu.conv.memory import bind_epilogue, strided
from autofusion_kernels_cpu.conv.packing import packed_bias, packed_weights
from autofusion_kernels_cpu.conv.problem import ConvProblem
from autofusion_kernels_cpu.conv.schedule import cost
from autofusion_kernels_cpu.conv.steps import Layer, step_data
from autofusion_kernels_cpu.conv.variant import Variant, cycles_of
from autofusion_kernels_cpu.native.program import NativeKernel, independent
from autofusion_kernels_cpu.support import again

MORE_BIAS = 8
"""Blocks after the bias that the widest group may read."""


def offer(problem: ConvProblem, target: Target) -> Offer:
    """On channel blocks; runs every convolution."""
    return _offer(problem, target, Variant.DEPTHWISE if problem.geometry.is_depthwise else Variant.BLOCKED)


def offer_planar(problem: ConvProblem, target: Target) -> Offer | Refusal:
    """On a plain image of few channels, for which there is a border in memory."""
    return why_not_planar(problem, target) or _offer(problem, target, Variant.PLANAR)


def why_not_planar(problem: ConvProblem, target: Target) -> Refusal | None:
    """Why a plain image is not read as it is, or None."""
    g = problem.geometry
    if g.channels >= target.lanes or g.groups != 1 or g.transposed:
        return Refusal("its operand is not an image of few channels")
    if problem.reads_input_twice:
        return Refusal("its epilogue reads the image as well, in channel blocks")
    return None


def _offer(problem: ConvProblem, target: Target, variant: Variant) -> Offer:
    layout = Layout(target.lanes)
    source = Layout() if variant is Variant.PLANAR else layout
    cycles = cycles_of(isa_of(target), problem.geometry.turned(), variant)
    seconds, workers = cost(target, cycles, problem.weights.nbytes, problem.moved_bytes(source, layout))
    return Offer(
        f"conv.{variant.value}",
        problem.operands(source, problem.geometry.border, layout),
        (Operand(layout, bordered=True),),
        partial(bind, problem, variant, workers),
        seconds=seconds,
        resize=partial(again, problem.resized, _resized, target, variant),
    )


def _resized(problem: ConvProblem, target: Target, variant: Variant) -> Offer | Refusal:
    return offer_planar(problem, target) if variant is Variant.PLANAR else offer(problem, target)


def bind(
    problem: ConvProblem,
    variant: Variant,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step for each number of channel blocks that the groups of output channels have."""
    x, y = inputs[problem.operand], outputs[0]
    assert x is not None
    problem = _turned(problem, (x, y, *(inputs[i] for i in problem.result_operands)))
    g, isa, epilogue = problem.geometry, isa_of(context.target), problem.epilogue
    blocks = -(-g.filters // isa.lanes)
    operands = bind_epilogue(context, epilogue, inputs, g, blocks, isa.lanes)
    strides = tuple(o.strides for o in operands)
    layer = Layer(g, variant, strided(x, g), strided(y, g), strides, epilogue.kinds, workers, context.target)
    data = step_data(layer)
    buffers = {
        "input": x,
        "weights": packed_weights(context, problem, variant, data.filters),
        "bias": packed_bias(context, problem.bias, blocks + MORE_BIAS, isa.lanes),
        "output": y,
        **{f"operand{i}": operand.source for i, operand in enumerate(operands)},
    }
    made = [
        kernel(step.structure, epilogue).step(
            buffers,
            step.params,
            step.data,
            label=f"conv.{variant.value}x{step.structure.vectors}",
            workers=step.workers,
        )
        for step in data.steps
    ]
    return NativeKernel(independent(made))


def _turned(problem: ConvProblem, views: Sequence[TensorView | None]) -> ConvProblem:
    """The problem with single axes leading, unless a border lies between the elements of one of the tensors."""
    turned = problem.geometry.turned()
    dense = all(v is None or v.strides[-1 - turned.leading] == v.strides[-1] for v in views)
    return replace(problem, geometry=turned) if dense else problem
