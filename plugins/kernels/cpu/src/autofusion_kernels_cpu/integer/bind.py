"""Integer products bound to memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autofusion.kernels import BindContext, KernelError, TensorView, dense_strides
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.integer import operand
from autofusion_kernels_cpu.integer.form import Form, padded
from autofusion_kernels_cpu.integer.kernel import Structure, build, operand_names
from autofusion_kernels_cpu.integer.problem import IntegerProduct
from autofusion_kernels_cpu.integer.weights import Weights, pack_weights
from autofusion_kernels_cpu.leaves import leaf_memory, table_memory
from autofusion_kernels_cpu.matmul.kernel import PACKED
from autofusion_kernels_cpu.matmul.problem import Product, split_axes
from autofusion_kernels_cpu.matmul.schedule import row_groups
from autofusion_kernels_cpu.matmul.tile import choose_rows, panel_width
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref

Move = tuple[tuple[int, ...], int, int]
"""Strides over (batch axes, rows, columns)."""


def scratch_bytes(problem: IntegerProduct, form: Form, isa: Isa) -> int:
    """Memory for A prepared and the sums of its rows."""
    rows = math.prod(problem.product.a_shape[:-1])
    return rows * (padded(form, isa, problem.product.k) * form.element.size + 4)


def bind(
    problem: IntegerProduct,
    form: Form,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step, or two: A is prepared first unless it can be read where it lies."""
    product = problem.product
    if 0 in product.space:
        return NativeKernel(())
    width = panel_width(isa)
    panels, groups = -(-product.columns // width), -(-product.k // form.group)
    weights = pack_weights(context.cache, problem, form, isa)
    signed = problem.a_dtype == np.int8
    steps: tuple[NativeStep, ...] = ()
    a_view, zero = inputs[product.a], _zero(problem, inputs)
    assert a_view is not None
    a: Source = a_view
    row_bytes = product.k
    sums: Source = np.zeros(1, np.int32)
    if form is Form.WORDS or signed or product.k % form.group or weights.zeros is not None:
        assert context.scratch is not None
        row_bytes = padded(form, isa, product.k) * form.element.size
        a, sums = context.scratch, Ref(context.scratch, math.prod(product.a_shape[:-1]) * row_bytes)
        steps = (_prepare(problem, form, isa, workers, a_view, zero, a, sums, weights),)
    bytes_of_a = [s * row_bytes // product.k if product.k else 0 for s in dense_strides(product.a_shape)]
    own = [s * panels * groups * width * 4 for s in dense_strides(product.b_shape[:-2])]
    b_batch = nest.broadcast_strides(product.b_shape[:-2], own, len(product.batch))
    moves: list[Move] = [product.of_a(bytes_of_a), (b_batch, 0, 0)]
    a_zero = form is Form.BYTES and (problem.a_zero is not None or signed)
    outside: list[Source] = []
    for source, move in _corrections(problem, a_zero, weights, zero, sums, panels * width):
        outside.append(source)
        moves.append(move)
    kinds: list[OperandKind] = []
    for leaf in product.region.leaves:
        if leaf.table:
            outside.append(table_memory(leaf, inputs))
            moves.append(((0,) * len(product.batch), 0, 0))
            kinds.append(OperandKind.SCALAR)
            continue
        ref, shape, strides = leaf_memory(leaf, inputs, len(product.space))
        outside.append(ref)
        moves.append(product.of_result(shape, strides))
        kinds.append(_kind(product, moves[-1][2]))
    for view in outputs:
        outside.append(view)
        moves.append(product.of_result(product.space, view.strides))
        if product.columns > 1 and moves[-1][2] != 1:
            raise KernelError(
                f"result of {product.anchor.label}: expected adjacent columns, found stride {moves[-1][2]}"
            )
    batch_axes, row_axis = split_axes(product, moves)
    table = nest.offsets(batch_axes, len(moves))
    rows = choose_rows(isa, row_axis.size)
    s = Structure(form, rows.tile, a_zero, signed, weights.zeros is not None)
    epilogue = Epilogue(product.region, tuple(kinds), product.anchor.output)
    blocks, block_tiles = row_groups(groups, rows, len(table), panels, workers, PACKED, context.target)
    pace = -(-width * rows.tile.panels * 4 // block_tiles)
    params = {
        "columns": product.columns,
        "groups": groups,
        "workers": workers,
        "batches": len(table),
        "blocks": blocks,
        "panels": panels,
        "tiles": rows.tall + rows.short,
        "tall": rows.tall,
        "block_tiles": block_tiles,
        "a_row": row_axis.strides[0],
        "b_panel": groups * width * 4,
        "prefetch": pace * groups,
        "pace": pace,
    }
    names = operand_names(s, epilogue)
    params |= {f"{name}_row": stride for name, stride in zip(names, row_axis.strides[2:], strict=True)}
    buffers: dict[str, Source] = {"table": table, "a": a, "b": weights.panels}
    buffers |= dict(zip(names, outside, strict=True))
    return NativeKernel((*steps, build(s, epilogue, isa).step(buffers, params, workers=workers)))


def _zero(problem: IntegerProduct, inputs: Sequence[TensorView | None]) -> tuple[Source, int]:
    """A's zero points, and the elements between those of two rows."""
    if problem.a_zero is None:
        return np.zeros(1, np.uint8), 0
    ref, _, strides = leaf_memory(problem.a_zero, inputs, 1)
    return ref, strides[0] if problem.zero_for_each_row else 0


def _prepare(
    problem: IntegerProduct,
    form: Form,
    isa: Isa,
    workers: int,
    a: TensorView,
    zero: tuple[Source, int],
    rows: Source,
    sums: Source,
    weights: Weights,
) -> NativeStep:
    product = problem.product
    structure = operand.Structure(form, problem.a_dtype == np.int8, weights.zeros is not None)
    params = {
        "rows": math.prod(product.a_shape[:-1]),
        "cycle": product.rows,
        "k": product.k,
        "padded": padded(form, isa, product.k),
        "zero_row": zero[1],
        "workers": workers,
    }
    buffers = {"a": a, "zero": zero[0], "rows": rows, "sums": sums}
    return operand.build(structure, isa).step(buffers, params, workers=workers)


def _corrections(
    problem: IntegerProduct, a_zero: bool, weights: Weights, zero: tuple[Source, int], sums: Source, columns: int
) -> list[tuple[Source, Move]]:
    """What makes up for zero points, in the order of ``operand_names``."""
    product, rank = problem.product, len(problem.product.batch)
    own = [stride * columns for stride in dense_strides(product.b_shape[:-2])]
    batch = nest.broadcast_strides(product.b_shape[:-2], own, rank)
    found: list[tuple[Source, Move]] = []
    if a_zero:
        assert weights.columns is not None
        found += [(zero[0], ((0,) * rank, zero[1], 0)), (weights.columns, (batch, 0, 1))]
    if weights.zeros is not None:
        strides = dense_strides(product.a_shape[:-1])
        a_batch = nest.broadcast_strides(product.a_shape[:-2], strides[:-1], rank)
        found += [(sums, (a_batch, strides[-1] if strides else 0, 0)), (weights.zeros, (batch, 0, 1))]
    return found


def _kind(product: Product, column: int) -> OperandKind:
    if column in (0, 1):
        return OperandKind.TENSOR if column else OperandKind.SCALAR
    raise KernelError(f"an operand of {product.anchor.label}: expected adjacent columns, found stride {column}")
