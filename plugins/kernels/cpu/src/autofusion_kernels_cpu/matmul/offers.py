"""Offers for MatMul, Gemm and fused nodes of kind ``matmul``, and their binding to memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.operators import work
from autofusion.kernels import (
    BindContext,
    KernelError,
    Numerics,
    Offer,
    Operand,
    Refusal,
    Target,
    TensorView,
    dense_strides,
)
from autofusion_kernels_cpu import estimate
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.isa import Isa, host_isa
from autofusion_kernels_cpu.leaves import leaf_memory
from autofusion_kernels_cpu.matmul.kernel import (
    BY_COLUMNS,
    BY_ROWS,
    PACKED,
    PARAMETERS,
    SCALAR,
    VECTOR,
    Epilogue,
    Form,
    address,
)
from autofusion_kernels_cpu.matmul.pack import pack_constant, padded_steps
from autofusion_kernels_cpu.matmul.problem import Product, product_of, split_axes
from autofusion_kernels_cpu.matmul.tile import MAX_PANELS, Rows, choose_rows, panel_width
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref

# Rows up to which packing B costs more than reading it where it lies.
DIRECT_ROWS = 16


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers for a float32 matrix product, alone or with a pointwise epilogue."""
    product = product_of(node)
    if isinstance(product, str):
        return Refusal(product)
    isa = host_isa(target.isa)
    scratch = 0
    if product.constant is None:
        scratch = target.threads * MAX_PANELS * padded_steps(isa, product.k) * panel_width(isa) * 4
    factors = {product.a, product.b}
    shared = tuple(
        (r, leaf.operand)
        for r, value in enumerate(product.region.results)
        for leaf in product.region.leaves
        if leaf.operand is not None and leaf.operand not in factors and leaf.constant is None
        if leaf.shape == product.space and leaf.dtype == value.tensor.dtype
    )
    seconds, workers = _estimate(node, product, isa, target)
    return [
        Offer(
            kernel="matmul.packed" if product.constant is not None else "matmul.dynamic",
            inputs=tuple(None if v is None else Operand(strided=True) for v in node.inputs),
            outputs=tuple(Operand(strided=True) for _ in node.outputs),
            bind=partial(_bind, product, isa, workers),
            seconds=seconds,
            scratch=scratch,
            numerics=Numerics.REASSOCIATED,
            inplace=shared,
        )
    ]


def _estimate(node: Node, product: Product, isa: Isa, target: Target) -> tuple[float, int]:
    """Seconds and threads: register tiles at two multiply-adds a cycle, against the traffic, plus the epilogue."""
    batches = math.prod(product.batch)
    shared = math.prod(product.b_shape[:-2]) == 1
    rows = choose_rows(isa, max(1, product.rows * batches if shared else product.rows))
    panels = -(-product.columns // panel_width(isa))
    cycles = (1 if shared else batches) * panels * max(product.k, 1) * rows.cycles
    inner = cycles * 4 * isa.lanes / target.peak_flops
    amount = work(node)
    elements = product.anchor.output.tensor.numel
    rest = max(0.0, amount.flops - 2.0 * elements * product.k) / (target.peak_flops / 2)
    rest += amount.transcendentals / target.transcendentals
    whole = estimate.roofline(target, (inner + rest) * target.peak_flops, amount.bytes_read + amount.bytes_written)
    return whole.seconds, whole.workers


def _bind(
    product: Product,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    if 0 in product.space:
        return NativeKernel(())
    width = panel_width(isa)
    a_view = inputs[product.a]
    assert a_view is not None
    refs: list[Ref] = [Ref(a_view)]
    moves = [product.of_a(a_view.strides)]
    panels = -(-product.columns // width)
    if product.constant is not None:
        packed = pack_constant(context.cache, product.constant, product.transposed_b, isa)
        refs.append(Ref(packed))
        own = [s * panels * product.k * width for s in dense_strides(product.b_shape[:-2])]
        b_batch = nest.broadcast_strides(product.b_shape[:-2], own, len(product.batch))
        moves.append((b_batch, width, 1))
        source, b_panel, b_step = PACKED, product.k * width, width
    else:
        assert product.b is not None
        b_view = inputs[product.b]
        assert b_view is not None
        refs.append(Ref(b_view))
        moves.append(product.of_b(b_view.strides))
        source, b_panel, b_step = _source(product, moves[1])
    kinds: list[str] = []
    for leaf in product.region.leaves:
        ref, shape, strides = leaf_memory(leaf, inputs, len(product.space))
        refs.append(ref)
        moves.append(product.of_result(shape, strides))
        kinds.append(_kind(product, moves[-1][2]))
    for view in outputs:
        refs.append(Ref(view))
        moves.append(product.of_result(product.space, view.strides))
        if product.columns > 1 and moves[-1][2] != 1:
            raise KernelError(
                f"result of {product.anchor.label}: expected adjacent columns, found stride {moves[-1][2]}"
            )
    batch_axes, row_axis = split_axes(product, moves)
    table = nest.offsets(batch_axes, len(moves))
    rows = choose_rows(isa, row_axis.size)
    epilogue = Epilogue(product.region, tuple(kinds), product.anchor.output, product.alpha, product.beta, product.c)
    groups, group_tiles = _groups(product, rows, len(table), panels, workers, source, context.target)
    pace = -(-width * rows.tile.panels * 4 // group_tiles) if source == PACKED else 0
    numbers = {
        "k": product.k,
        "columns": product.columns,
        "workers": workers,
        "batches": len(table),
        "groups": groups,
        "panels": panels,
        "tiles": rows.tall + rows.short,
        "tall": rows.tall,
        "group_tiles": group_tiles,
        "a_row": row_axis.strides[0],
        "a_step": moves[0][2],
        "b_panel": b_panel,
        "b_step": b_step,
        "direct": int(row_axis.size <= DIRECT_ROWS),
        "scratch": MAX_PANELS * padded_steps(isa, product.k) * width * 4,
        "prefetch": pace * product.k,
        "pace": pace,
    }
    step = NativeStep(
        address(Form(rows.tile, source), epilogue, isa),
        (Ref(table), *refs, Ref(context.scratch if context.scratch is not None else table)),
        np.array([*(numbers[name] for name in PARAMETERS), *row_axis.strides[2:]], np.int64),
        name="matmul",
        workers=workers,
    )
    return NativeKernel((step,))


def _source(product: Product, move: tuple[tuple[int, ...], int, int]) -> tuple[str, int, int]:
    """(how B comes, stride between columns, stride between steps of k)."""
    _, step, column = move
    if column == 1 or product.columns == 1:
        return BY_ROWS, 1, step
    if step == 1 or product.k == 1:
        return BY_COLUMNS, column, 1
    raise KernelError(
        f"operand B of {product.anchor.label}: expected adjacent rows or columns, found strides {step} and {column}"
    )


def _kind(product: Product, column: int) -> str:
    if column in (0, 1):
        return VECTOR if column else SCALAR
    raise KernelError(f"an operand of {product.anchor.label}: expected adjacent columns, found stride {column}")


def _groups(
    product: Product, rows: Rows, batches: int, panels: int, workers: int, source: str, target: Target
) -> tuple[int, int]:
    """(blocks of rows, tiles in each), so that A's block stays in the second-level cache and threads end together."""
    tiles = rows.tall + rows.short
    block_bytes = product.k * tiles * rows.tile.rows * 4
    least = max(1, min(tiles, -(-block_bytes * 4 // (3 * target.l2_bytes))))
    spans = -(-panels // rows.tile.panels)
    # What a task costs besides its tiles, in tiles: fetching its panels again, or packing them again.
    overhead = 0.5 if source == PACKED else 1.0
    best, choice = math.inf, (least, -(-tiles // least))
    for wanted in range(least, min(tiles, 8 * workers + least) + 1):
        height = -(-tiles // wanted)
        groups = -(-tiles // height)
        cost = -(-batches * groups * spans // workers) * (tiles / groups + overhead)
        if cost < best * 0.99:
            best, choice = cost, (groups, height)
    return choice
