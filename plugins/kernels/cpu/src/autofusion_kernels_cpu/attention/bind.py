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
    if 0 in problem.result.tensor.static_shape:
        return NativeKernel(())
    sources: list[Source] = []
    moves: list[tuple[tuple[int, ...], int, int]] = []

    def add(source: Source, shape: Sequence[int], strides: Sequence[int], adjacent: str = "") -> None:
        sources.append(source)
        moves.append(problem.over_batch(shape, strides))
        if adjacent and shape[-1] > 1 and strides[-1] != 1:
            raise KernelError(f"operand {adjacent} of attention: expected adjacent elements, found {strides[-1]}")

    for name, index in (("", problem.q), ("K", problem.k), ("V", problem.v)):
        view = inputs[index]
        assert view is not None
        add(view, view.shape, view.strides, name)
    kinds = []
    for leaf in problem.region.leaves:
        add(*leaf_memory(leaf, inputs, len(problem.space)))
        kinds.append(OperandKind.TENSOR if moves[-1][2] else OperandKind.SCALAR)
        if moves[-1][2] not in (0, 1):
            raise KernelError(f"operand '{leaf.value.name}' of attention: expected adjacent keys")
    add(outputs[0], outputs[0].shape, outputs[0].strides, "result")
    table = nest.offsets(nest.collapse(problem.batch, [m[0] for m in moves]), len(moves))
    rows = choose_rows(isa, problem.queries, single=True)
    tiles = rows.tall + rows.short
    groups, group_tiles = tile_groups(len(table), tiles, workers)
    epilogue = Epilogue(problem.region, tuple(kinds), problem.scores, alpha=problem.factor)
    k_view, v_view, o_view = inputs[problem.k], inputs[problem.v], outputs[0]
    assert k_view is not None and v_view is not None
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
        "q_row": moves[0][1],
        "q_step": moves[0][2],
        "k_row": k_view.strides[-2],
        "v_row": v_view.strides[-2],
        "o_row": o_view.strides[-2],
        "scratch": scratch_layout(isa, problem.keys, problem.depth)[3] * 4,
    }
    assert context.scratch is not None
    names = leaf_names(epilogue)
    params |= {f"{name}_row": move[1] for name, move in zip(names, moves[3:-1], strict=True)}
    buffers = dict(zip(("q", "k", "v", *names, "o"), sources, strict=True))
    buffers |= {"table": table, "scratch": context.scratch}
    structure = Structure(rows.tile.rows, problem.k_columns)
    return NativeKernel((build(structure, epilogue, isa).step(buffers, params, workers=workers),))
