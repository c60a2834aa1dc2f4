"""Products bound to memory."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.kernels import BindContext, KernelError, TensorView, dense_strides
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.leaves import leaf_memory
from autofusion_kernels_cpu.matmul.kernel import BY_COLUMNS, BY_ROWS, PACKED, Structure, build, operand_names
from autofusion_kernels_cpu.matmul.pack import pack_constant, padded_steps
from autofusion_kernels_cpu.matmul.problem import Product, split_axes
from autofusion_kernels_cpu.matmul.schedule import row_groups
from autofusion_kernels_cpu.matmul.tile import MAX_PANELS, choose_rows, panel_width
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel

# Rows up to which packing B costs more than reading it where it lies.
DIRECT_ROWS = 16


def bind(
    product: Product,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step; A, B and everything else as their strides say."""
    if 0 in product.space:
        return NativeKernel(())
    width = panel_width(isa)
    a_view = inputs[product.a]
    assert a_view is not None
    buffers: dict[str, Source] = {"a": a_view}
    moves = [product.of_a(a_view.strides)]
    panels = -(-product.columns // width)
    if product.constant is not None:
        buffers["b"] = pack_constant(context.cache, product.constant, product.transposed_b, isa)
        own = [s * panels * product.k * width for s in dense_strides(product.b_shape[:-2])]
        b_batch = nest.broadcast_strides(product.b_shape[:-2], own, len(product.batch))
        moves.append((b_batch, width, 1))
        source, b_panel, b_step = PACKED, product.k * width, width
    else:
        assert product.b is not None
        b_view = inputs[product.b]
        assert b_view is not None
        buffers["b"] = b_view
        moves.append(product.of_b(b_view.strides))
        source, b_panel, b_step = _source(product, moves[1])
    kinds: list[OperandKind] = []
    outside: list[Source] = []
    for leaf in product.region.leaves:
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
    epilogue = Epilogue(product.region, tuple(kinds), product.anchor.output, product.alpha, product.beta, product.c)
    groups, group_tiles = row_groups(product.k, rows, len(table), panels, workers, source, context.target)
    pace = -(-width * rows.tile.panels * 4 // group_tiles) if source == PACKED else 0
    params = {
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
    names = operand_names(epilogue)
    params |= {f"{name}_row": stride for name, stride in zip(names, row_axis.strides[2:], strict=True)}
    buffers |= {"table": table, "scratch": table if context.scratch is None else context.scratch}
    buffers |= dict(zip(names, outside, strict=True))
    step = build(Structure(rows.tile, source), epilogue, isa).step(buffers, params, workers=workers)
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


def _kind(product: Product, column: int) -> OperandKind:
    if column in (0, 1):
        return OperandKind.TENSOR if column else OperandKind.SCALAR
    raise KernelError(f"an operand of {product.anchor.label}: expected adjacent columns, found stride {column}")
