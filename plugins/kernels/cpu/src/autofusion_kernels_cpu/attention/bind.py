"""Attention bound to memory."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.kernels import BindContext, KernelError, TensorView
from autofusion_kernels_cpu.attention.kernel import Structure, build, leaf_names, scratch_layout
from autofusion_kernels_cpu.attention.problem import Attention
from autofusion_kernels_cpu.attention.schedule import tile_groups
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.strided import Axis, aligned, axes_of, stride_of
from autofusion_kernels_cpu.leaves import leaf_memory
from autofusion_kernels_cpu.matmul.tile import choose_rows
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel


def bind(
    problem: Attention,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step; Q, K, V, the leaves and the result as their strides say."""
    if 0 in problem.product.tensor.static_shape:
        return NativeKernel(())
    sources: list[Source] = []
    walks: list[list[Axis]] = []
    for factor in (problem.q, problem.k, problem.v):
        view = inputs[factor.operand]
        assert view is not None
        sources.append(view)
        walks.append(problem.over_batch(factor.axes(view.strides)))
    for leaf in (*problem.region.leaves, *problem.guard.leaves):
        found, shape, strides = leaf_memory(leaf, inputs, len(problem.space))
        sources.append(found)
        walks.append(problem.over_batch(axes_of(shape, strides)))
    sources.append(outputs[0])
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
        kinds.append(OperandKind.TENSOR if column else OperandKind.SCALAR)
        if column not in (0, 1):
            raise KernelError("a mask of attention: expected adjacent keys")
    k_columns, k_row = _lies("K", moves[1], problem.k.shape[-2:])
    v_row = moves[2][1] if problem.v_columns else moves[2][0]
    o_row, o_step = moves[-1]
    rows = choose_rows(isa, problem.queries, single=True)
    tiles = rows.tall + rows.short
    groups, group_tiles = tile_groups(len(table), tiles, workers)
    masks = len(problem.region.leaves)
    epilogue = Epilogue(problem.region, tuple(kinds[:masks]), problem.scores, alpha=problem.factor)
    guard = Epilogue(problem.guard, tuple(kinds[masks:]), problem.probabilities)
    params = {
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
        "scratch": scratch_bytes(problem, isa),
    }
    assert context.scratch is not None
    names = leaf_names(epilogue, guard)
    params |= {f"{name}_row": move[0] for name, move in zip(names, moves[3:-1], strict=True)}
    buffers = dict(zip(("q", "k", "v", *names, "o"), sources, strict=True))
    buffers |= {"table": table, "scratch": context.scratch}
    structure = Structure(rows.tile.rows, k_columns, problem.v_columns, problem.width > 1 and o_step != 1)
    return NativeKernel((build(structure, epilogue, guard, isa).step(buffers, params, workers=workers),))


def scratch_bytes(problem: Attention, isa: Isa) -> int:
    """Bytes for each thread."""
    return scratch_layout(isa, problem.keys, problem.depth, problem.width if problem.v_columns else 1)[3] * 4


def _lies(name: str, move: tuple[int, int], shape: Sequence[int]) -> tuple[bool, int]:
    """(whether an operand's columns are what is adjacent, the stride between its rows or its columns)."""
    row, column = move
    if column == 1 or shape[-1] == 1:
        return False, row
    if row == 1 or shape[-2] == 1:
        return True, column
    raise KernelError(f"operand {name} of attention: expected adjacent elements, found strides {row} and {column}")
