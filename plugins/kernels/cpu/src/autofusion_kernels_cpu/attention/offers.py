"""Offers for fused nodes of kind ``attention``, and their binding to memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.operators import work
from autofusion.kernels import BindContext, KernelError, Numerics, Offer, Operand, Refusal, Target, TensorView
from autofusion_kernels_cpu import estimate
from autofusion_kernels_cpu.attention.kernel import PARAMETERS, Form, address, scratch_layout
from autofusion_kernels_cpu.attention.problem import Attention, attention_of
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.isa import Isa, host_isa
from autofusion_kernels_cpu.codegen.strided import Axis, aligned, axes_of, stride_of
from autofusion_kernels_cpu.leaves import leaf_memory
from autofusion_kernels_cpu.matmul.kernel import SCALAR, VECTOR, Epilogue
from autofusion_kernels_cpu.matmul.tile import choose_rows, panel_width
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """One offer for float32 attention on plain tensors: any head length, any number of queries and keys."""
    problem = attention_of(node)
    if isinstance(problem, str):
        return Refusal(problem)
    isa = host_isa(target.isa)
    seconds, workers = _estimate(node, problem, isa, target)
    return [
        Offer(
            kernel="attention.tiled",
            inputs=tuple(None if v is None else Operand(strided=True) for v in node.inputs),
            outputs=(Operand(strided=True),),
            bind=partial(_bind, problem, isa, workers),
            seconds=seconds,
            scratch=target.threads * _scratch(problem, isa),
            numerics=Numerics.REASSOCIATED,
        )
    ]


def _estimate(node: Node, problem: Attention, isa: Isa, target: Target) -> tuple[float, int]:
    """Two products at the tile's rate, packing K, one exponential a score, and the traffic of the operands."""
    heads, width = math.prod(problem.batch), panel_width(isa)
    rows = choose_rows(isa, max(1, problem.queries), single=True)
    panels = -(-problem.keys // width) * problem.depth + -(-problem.width // width) * problem.keys
    cycles = heads * panels * rows.cycles
    cycles += heads * problem.keys * problem.depth * 4 / isa.lanes
    scores = heads * problem.queries * problem.keys
    amount = work(node)
    compute = cycles * 4 * isa.lanes / target.peak_flops + scores / target.transcendentals
    whole = estimate.roofline(target, compute * target.peak_flops, amount.bytes_read + amount.bytes_written)
    return whole.seconds, whole.workers


def _scratch(problem: Attention, isa: Isa) -> int:
    """Bytes for each thread."""
    return scratch_layout(isa, problem.keys, problem.depth, problem.width if problem.v_columns else 1)[3] * 4


def _bind(
    problem: Attention,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    if 0 in problem.product.tensor.static_shape:
        return NativeKernel(())
    refs: list[Ref] = []
    walks: list[list[Axis]] = []
    for source in (problem.q, problem.k, problem.v):
        view = inputs[source.operand]
        assert view is not None
        refs.append(Ref(view))
        walks.append(problem.over_batch(source.axes(view.strides)))
    for leaf in (*problem.region.leaves, *problem.guard.leaves):
        ref, shape, strides = leaf_memory(leaf, inputs, len(problem.space))
        refs.append(ref)
        walks.append(problem.over_batch(axes_of(shape, strides)))
    refs.append(Ref(outputs[0]))
    walks.append(problem.of_result(outputs[0].shape, outputs[0].strides))
    ends = [(stride_of(walk[-2]), stride_of(walk[-1])) for walk in walks]
    if any(None in end for end in ends):
        raise KernelError("an operand of attention: its rows or columns do not lie evenly")
    moves: list[tuple[int, int]] = [(row or 0, column or 0) for row, column in ends]
    cut = aligned([walk[:-2] for walk in walks], problem.batch)
    if cut is None:
        raise KernelError("operands of attention: their heads cannot be walked over together")
    table = nest.offsets(nest.collapse(*cut), len(walks))
    kinds = []
    for _, column in moves[3:-1]:
        kinds.append(VECTOR if column else SCALAR)
        if column not in (0, 1):
            raise KernelError("a mask of attention: expected adjacent keys")
    k_columns, k_row = _lies("K", moves[1], problem.k.shape[-2:])
    v_row = moves[2][1] if problem.v_columns else moves[2][0]
    o_row, o_step = moves[-1]
    form = Form(0, k_columns, problem.v_columns, problem.width > 1 and o_step != 1)
    rows = choose_rows(isa, problem.queries, single=True)
    tiles = rows.tall + rows.short
    groups, group_tiles = _groups(len(table), tiles, workers)
    masks = len(problem.region.leaves)
    epilogue = Epilogue(problem.region, tuple(kinds[:masks]), problem.scores, alpha=problem.factor)
    guard = Epilogue(problem.guard, tuple(kinds[masks:]), problem.probabilities)
    numbers = {
        "keys": problem.keys,
        "depth": problem.depth,
        "width": problem.width,
        "workers": workers,
        "batches": len(table),
        "groups": groups,
        "tiles": tiles,
        "tall": rows.tall,
        "group_tiles": group_tiles,
        "q_row": moves[0][0],
        "q_step": moves[0][1],
        "k_row": k_row,
        "v_row": v_row,
        "o_row": o_row,
        "o_step": o_step or 1,
        "scratch": _scratch(problem, isa),
    }
    assert context.scratch is not None
    leaves = [row for row, _ in moves[3:-1]]
    step = NativeStep(
        address(replace(form, rows=rows.tile.rows), epilogue, guard, isa),
        (Ref(table), *refs, Ref(context.scratch)),
        np.array([*(numbers[name] for name in PARAMETERS), *leaves], np.int64),
        name="attention",
        workers=workers,
    )
    return NativeKernel((step,))


def _lies(name: str, move: tuple[int, int], shape: Sequence[int]) -> tuple[bool, int]:
    """(whether an operand's columns are what is adjacent, the stride between its rows or its columns)."""
    row, column = move
    if column == 1 or shape[-1] == 1:
        return False, row
    if row == 1 or shape[-2] == 1:
        return True, column
    raise KernelError(f"operand {name} of attention: expected adjacent elements, found strides {row} and {column}")


def _groups(batches: int, tiles: int, workers: int) -> tuple[int, int]:
    """(blocks of tiles of a head, tiles in each): heads are only cut where threads would wait for each other."""
    best, choice = math.inf, (1, tiles)
    for wanted in range(1, min(tiles, 2 * workers) + 1):
        height = -(-tiles // wanted)
        groups = -(-tiles // height)
        # A thread that comes to another part of a head packs K once more.
        cost = -(-batches * groups // workers) * height + 0.5 * (groups > 1)
        if cost < best:
            best, choice = cost, (groups, height)
    return choice
