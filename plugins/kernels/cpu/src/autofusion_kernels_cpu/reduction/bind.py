"""Reductions bound to memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Value
from autofusion.kernels import BindContext, TensorView
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.region import Leaf
from autofusion_kernels_cpu.leaves import leaf_memory
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.reduction import sweep
from autofusion_kernels_cpu.reduction.kernel import build, operand_names, step_names
from autofusion_kernels_cpu.reduction.problem import Problem
from autofusion_kernels_cpu.reduction.programs import Program
from autofusion_kernels_cpu.reduction.schedule import plan_axes


def bind(
    problem: Problem,
    block: int,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step over operands in channel blocks of ``block``, or plain ones if it is 0."""
    if 0 in problem.row_shape or (problem.full_results and 0 in problem.space):
        return NativeKernel(())
    space, reduced = problem.space, [i in problem.axes for i in range(len(problem.space))]
    if block:
        sizes, classes = [space[0], -(-space[1] // block), *space[2:], block], [*reduced, False]
    elif problem.groups:
        sizes = [space[0], problem.groups, space[1] // problem.groups, *space[2:]]
        classes = [False, False, True, *reduced[2:]]
    else:
        sizes, classes = list(space), reduced
    sources: list[Source] = []
    strides: list[tuple[int, ...]] = []

    def add(source: Source, shape: Sequence[int], own: Sequence[int], blocked: bool, row: bool) -> None:
        sources.append(source)
        strides.append(_over_axes(problem, block, shape, own, blocked, row))

    def split(aligned: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of a plain result over the axes of a blocked nest."""
        return (aligned[0], aligned[1] * block, *aligned[2:-1], aligned[1])

    def add_leaf(leaf: Leaf, row: bool) -> None:
        blocked = bool(block) and problem.in_blocks(leaf)
        add(*leaf_memory(leaf, inputs, len(space), block if blocked else 0), blocked, row)

    def add_result(number: int, row: bool) -> None:
        view = outputs[number]
        if not view.layout.block:
            add(view, view.shape, view.strides, False, row)
            if block:
                strides[-1] = split(strides[-1])
            return
        add(view, (view.shape[0], -(-view.shape[1] // block), *view.shape[2:]), view.strides, True, row)

    for leaf in problem.full:
        add_leaf(leaf, False)
    for number, _ in problem.full_results:
        add_result(number, False)
    full = len(sources)
    for leaf in problem.row:
        add_leaf(leaf, True)
    for number, _ in problem.row_results:
        add_result(number, True)
    plan = plan_axes(sizes, classes, strides, full, isa, whole=bool(block))
    operands = [
        sweep.Operand(value, dtype, kind) for (value, dtype), kind in zip(_values(problem), plan.kinds, strict=True)
    ]
    program = Program(
        problem.anchor,
        problem.before.nodes,
        problem.after.nodes,
        operands[:full],
        range(len(problem.full), full),
        operands[full:],
        range(len(problem.row), len(operands) - full),
        problem.spread.nodes,
    )
    kernel = build(problem.signature(), program, plan.structure, isa)
    params = {"outer": len(plan.table), "length": plan.length, "columns": plan.columns}
    params |= dict(zip(step_names(program), plan.steps, strict=True))
    buffers = {"table": plan.table, **dict(zip(operand_names(program), sources, strict=True))}
    rows = nest.row_parameters(plan.rows, len(sources), workers)
    step = kernel.step(buffers, params, rows, label=f"reduction.{problem.anchor.op}", workers=workers)
    return NativeKernel((step,))


def _values(problem: Problem) -> list[tuple[Value, np.dtype]]:
    full = [*(leaf.value for leaf in problem.full), *(v for _, v in problem.full_results)]
    row = [*(leaf.value for leaf in problem.row), *(v for _, v in problem.row_results)]
    return [(v, v.tensor.dtype) for v in (*full, *row)]


def _over_axes(
    problem: Problem, block: int, shape: Sequence[int], own: Sequence[int], blocked: bool, row: bool
) -> tuple[int, ...]:
    """An operand's strides over the axes of the loop nest."""
    rank = len(problem.space)
    if row and not problem.keeps_axes:
        kept = iter(nest.broadcast_strides(shape, own, len(problem.row_shape)))
        aligned = tuple(0 if i in problem.axes else next(kept) for i in range(rank))
    else:
        aligned = nest.broadcast_strides(shape, own, rank)
    if block:
        return (*aligned, int(blocked))
    if problem.groups:
        each = problem.space[1] // problem.groups
        return (aligned[0], aligned[1] * each, *aligned[1:])
    return aligned
