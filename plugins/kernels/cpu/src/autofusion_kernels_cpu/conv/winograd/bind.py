"""Winograd convolutions bound to memory."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.kernels import BindContext, TensorView
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.conv.memory import bind_epilogue, strided
from autofusion_kernels_cpu.conv.packing import packed_bias
from autofusion_kernels_cpu.conv.problem import ConvProblem
from autofusion_kernels_cpu.conv.weights import aligned_zeros
from autofusion_kernels_cpu.conv.winograd.kernel import kernel
from autofusion_kernels_cpu.conv.winograd.layer import Layer, LayerData
from autofusion_kernels_cpu.conv.winograd.schedule import Plan
from autofusion_kernels_cpu.conv.winograd.weights import transformed_weights
from autofusion_kernels_cpu.kept import Kept
from autofusion_kernels_cpu.native.checks import FiniteCheck
from autofusion_kernels_cpu.native.program import NativeKernel

_KEPT: Kept[LayerData] = Kept(8 << 20)
"""Shared by layers of equal sizes and strides."""


def bind(
    problem: ConvProblem,
    plan: Plan,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step, cut as `plan` says."""
    x, y, g, epilogue = inputs[problem.operand], outputs[0], problem.geometry, problem.epilogue
    assert x is not None and context.scratch is not None
    lanes, blocks = isa_of(context.target).lanes, sum(plan.splits)
    operands = bind_epilogue(context, epilogue, inputs, g, blocks, lanes)
    strides = tuple(o.strides for o in operands)
    layer = Layer(g, plan, strided(x, g), strided(y, g), strides, epilogue.kinds, context.target)
    made = _KEPT.get(layer, layer.data, lambda made: made.data.nbytes)
    seen = aligned_zeros(context.target.threads * lanes)
    buffers = {
        "input": x,
        "weights": transformed_weights(context, problem.weights, plan, lanes),
        "bias": packed_bias(context, problem.bias, blocks, lanes),
        "output": y,
        "scratch": context.scratch,
        "seen": seen,
        **{f"operand{i}": operand.source for i, operand in enumerate(operands)},
    }
    step = kernel(layer.structure, epilogue).step(
        buffers,
        made.params,
        made.data,
        label=f"conv.winograd{plan.tile}",
        workers=plan.tile_threads * plan.filter_threads,
    )
    return NativeKernel((step,), FiniteCheck(seen))
