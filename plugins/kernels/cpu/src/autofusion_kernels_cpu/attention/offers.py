"""Offers for fused nodes of kind ``attention``, and their binding to memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
            scratch=target.threads * scratch_layout(isa, problem.keys, problem.depth)[3] * 4,
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


def _bind(
    problem: Attention,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    if 0 in problem.result.tensor.static_shape:
        return NativeKernel(())
    refs: list[Ref] = []
    moves: list[tuple[tuple[int, ...], int, int]] = []

    def add(ref: Ref, shape: Sequence[int], strides: Sequence[int], adjacent: str = "") -> None:
        refs.append(ref)
        moves.append(problem.over_batch(shape, strides))
        if adjacent and shape[-1] > 1 and strides[-1] != 1:
            raise KernelError(f"operand {adjacent} of attention: expected adjacent elements, found {strides[-1]}")

    for name, index in (("", problem.q), ("K", problem.k), ("V", problem.v)):
        view = inputs[index]
        assert view is not None
        add(Ref(view), view.shape, view.strides, name)
    kinds = []
    for leaf in problem.region.leaves:
        add(*leaf_memory(leaf, inputs, len(problem.space)))
        kinds.append(VECTOR if moves[-1][2] else SCALAR)
        if moves[-1][2] not in (0, 1):
            raise KernelError(f"operand '{leaf.value.name}' of attention: expected adjacent keys")
    add(Ref(outputs[0]), outputs[0].shape, outputs[0].strides, "result")
    table = nest.offsets(nest.collapse(problem.batch, [m[0] for m in moves]), len(moves))
    rows = choose_rows(isa, problem.queries, single=True)
    tiles = rows.tall + rows.short
    groups, group_tiles = _groups(len(table), tiles, workers)
    epilogue = Epilogue(problem.region, tuple(kinds), problem.scores, alpha=problem.factor)
    k_view, v_view, o_view = inputs[problem.k], inputs[problem.v], outputs[0]
    assert k_view is not None and v_view is not None
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
        "q_row": moves[0][1],
        "q_step": moves[0][2],
        "k_row": k_view.strides[-2],
        "v_row": v_view.strides[-2],
        "o_row": o_view.strides[-2],
        "scratch": scratch_layout(isa, problem.keys, problem.depth)[3] * 4,
    }
    assert context.scratch is not None
    leaves = [m[1] for m in moves[3:-1]]
    step = NativeStep(
        address(Form(rows.tile.rows, problem.k_columns), epilogue, isa),
        (Ref(table), *refs, Ref(context.scratch)),
        np.array([*(numbers[name] for name in PARAMETERS), *leaves], np.int64),
        name="attention",
        workers=workers,
    )
    return NativeKernel((step,))


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
