"""Pointwise regions bound to memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.kernels import BindContext, BufferKind, Layout, TensorView
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.nest import Axis
from autofusion_kernels_cpu.leaves import leaf_memory, table_memory
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.pointwise.kernel import (
    LANES,
    SCALAR,
    SPREAD,
    TABLE,
    VECTOR,
    Structure,
    build,
    numbers_of,
    operand_names,
)
from autofusion_kernels_cpu.pointwise.problem import Pointwise
from autofusion_kernels_cpu.pointwise.schedule import cut_rows


def bind(
    problem: Pointwise,
    layout: Layout,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step over operands and results in this layout."""
    region, space = problem.region, problem.space
    if 0 in space:
        return NativeKernel(())
    block = layout.block
    sizes = (space[0], -(-space[1] // block), *space[2:]) if block else space
    sources: list[Source] = []
    strides: list[tuple[int, ...]] = []
    in_blocks: list[bool] = []
    for leaf in region.leaves:
        if leaf.table:
            sources.append(table_memory(leaf, inputs))
            strides.append((0,) * len(space))
            in_blocks.append(False)
            continue
        blocked = bool(block) and problem.in_blocks(leaf)
        ref, shape, own = leaf_memory(leaf, inputs, len(space), block if blocked else 0)
        sources.append(ref)
        strides.append(nest.broadcast_strides(shape, own, len(space)))
        in_blocks.append(blocked)
    for view in outputs:
        sources.append(view)
        strides.append(view.strides)
        in_blocks.append(bool(block))
    axes = nest.collapse(sizes, strides)
    kinds = [_kind(axes[-1].strides[i] if axes else None, block, b) for i, b in enumerate(in_blocks)]
    if None in kinds:
        # Nothing runs along the innermost axis in every operand: rows of one element.
        axes.append(Axis(1, (0,) * len(sources)))
        kinds = [VECTOR if b or not block else SCALAR for b in in_blocks]
    kinds[: len(region.leaves)] = [TABLE if x.table else k for x, k in zip(region.leaves, kinds, strict=False)]
    nbytes = sum(v.tensor.nbytes for v in region.results) + sum(leaf.value.tensor.nbytes for leaf in region.leaves)
    streaming = not block and len(axes) == 1 and nbytes >= context.target.l3_bytes and all(map(_streamable, outputs))
    structure = Structure(tuple(str(k) for k in kinds[: len(region.leaves)]), whole=bool(block), streaming=streaming)
    params, outer = cut_rows(axes, [max(block, 1) if k == VECTOR else int(k == SPREAD) for k in kinds], workers)
    buffers: dict[str, Source] = dict(zip(operand_names(region), sources, strict=True))
    numbers = numbers_of(region)
    if numbers:
        buffers["numbers"] = np.array([v.const.item() for v in numbers if v.const is not None], np.float32)
    rows = nest.row_parameters(outer, len(sources), workers)
    return NativeKernel((build(region, structure, isa).step(buffers, params, rows, workers=workers),))


def _kind(stride: int | None, block: int, blocked: bool) -> str | None:
    """How an operand with ``stride`` moves along the innermost axis; None if in no way that the kernel knows."""
    if stride is None:
        return None
    if blocked:
        return {0: LANES, block: VECTOR}.get(stride)
    return {0: SCALAR, 1: SPREAD if block else VECTOR}.get(stride)


def _streamable(view: TensorView) -> bool:
    return view.buffer.kind is BufferKind.ARENA and view.offset * 4 % 64 == 0 and view.type.dtype == np.float32
