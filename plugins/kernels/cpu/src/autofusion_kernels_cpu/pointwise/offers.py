"""Offers for pointwise regions, on plain and on channel-blocked tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import FUSED, Node
from autofusion.kernels import (
    PLAIN,
    BindContext,
    BufferKind,
    Layout,
    Numerics,
    Offer,
    Operand,
    Refusal,
    Target,
    TensorView,
)
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.isa import Isa, host_isa
from autofusion_kernels_cpu.codegen.nest import Axis
from autofusion_kernels_cpu.codegen.region import Leaf, Region, region_of
from autofusion_kernels_cpu.estimate import node_estimate
from autofusion_kernels_cpu.leaves import leaf_memory
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref
from autofusion_kernels_cpu.pointwise.kernel import LANES, SCALAR, SPREAD, VECTOR, Form, address

# Pieces of a long row start on whole cache lines.
PIECE = 64
# Rows for each thread below which rows are cut, so that threads finish together.
ROWS_PER_THREAD = 4

_INEXACT = frozenset(
    "Acos Acosh Asin Asinh Atan Atanh BatchNormalization Celu Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish "
    "LeakyRelu Log Mish Pow Selu Sigmoid Sin Sinh Softplus Softsign Swish Tan Tanh".split()
)


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers for a pointwise operator, or a fused node of kind ``pointwise`` with any operands and results."""
    region = region_of(node)
    if isinstance(region, str):
        return Refusal(region)
    if not region.results or not region.nodes:
        return Refusal("the region computes nothing")
    space = np.broadcast_shapes(
        *(leaf.shape for leaf in region.leaves), *(v.tensor.static_shape for v in region.results)
    )
    for value in region.results:
        if value.tensor.static_shape != space:
            return Refusal(f"result '{value.name}' is {list(value.tensor.static_shape)} in a region over {list(space)}")
    isa = host_isa(target.isa)
    found = [_offer(node, region, space, PLAIN, target, isa)]
    blocked = _blocked_operands(region, space, isa.lanes)
    if blocked is not None:
        found.append(_offer(node, region, space, Layout(isa.lanes), target, isa, blocked))
    return found


def _offer(
    node: Node,
    region: Region,
    space: tuple[int, ...],
    layout: Layout,
    target: Target,
    isa: Isa,
    in_blocks: frozenset[int] = frozenset(),
) -> Offer:
    estimate = node_estimate(node, target)
    inputs = tuple(
        None if v is None else Operand(layout if i in in_blocks else PLAIN, strided=True)
        for i, v in enumerate(node.inputs)
    )
    outputs = tuple(Operand(layout, bordered=bool(layout.block), strided=True) for _ in node.outputs)
    shared = tuple(
        (r, leaf.operand)
        for r, value in enumerate(region.results)
        for leaf in region.leaves
        if leaf.operand is not None and leaf.constant is None
        if leaf.shape == space and leaf.value.tensor.dtype == value.tensor.dtype
    )
    return Offer(
        kernel="pointwise.region" if node.op == FUSED else "pointwise.operator",
        inputs=inputs,
        outputs=outputs,
        bind=partial(_bind, region, space, layout, isa, estimate.workers),
        seconds=estimate.seconds,
        numerics=Numerics.REASSOCIATED if any(n.op in _INEXACT for n in region.nodes) else Numerics.EXACT,
        inplace=shared,
    )


def _channel(leaf: Leaf, rank: int) -> int:
    """The leaf's size along axis 1 of a result of ``rank`` axes."""
    axis = 1 - (rank - len(leaf.shape))
    return leaf.shape[axis] if axis >= 0 else 1


def _in_blocks(leaf: Leaf, space: tuple[int, ...]) -> bool:
    """True if the leaf differs from channel to channel, so that a blocked result needs it in blocks."""
    return (space[1] == 1 and len(leaf.shape) == len(space)) or _channel(leaf, len(space)) > 1


def _blocked_operands(region: Region, space: tuple[int, ...], block: int) -> frozenset[int] | None:
    """Operands that a blocked offer wants in blocks; None if there can be no such offer."""
    if len(space) < 3 or any(v.tensor.dtype != np.float32 for v in region.results):
        return None
    chosen: set[int] = set()
    for leaf in region.leaves:
        if leaf.constant is not None or not _in_blocks(leaf, space):
            continue
        if leaf.dtype != np.float32 or len(leaf.value.tensor.static_shape) != len(space):
            return None
        assert leaf.operand is not None
        chosen.add(leaf.operand)
    return frozenset(chosen)


# --- binding ----------------------------------------------------------------------------------------------------------
def _bind(
    region: Region,
    space: tuple[int, ...],
    layout: Layout,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    if 0 in space:
        return NativeKernel(())
    block = layout.block
    sizes = (space[0], -(-space[1] // block), *space[2:]) if block else space
    refs: list[Ref] = []
    strides: list[tuple[int, ...]] = []
    in_blocks: list[bool] = []
    for leaf in region.leaves:
        blocked = bool(block) and _in_blocks(leaf, space)
        ref, shape, own = leaf_memory(leaf, inputs, len(space), block if blocked else 0)
        refs.append(ref)
        strides.append(nest.broadcast_strides(shape, own, len(space)))
        in_blocks.append(blocked)
    for view in outputs:
        refs.append(Ref(view))
        strides.append(view.strides)
        in_blocks.append(bool(block))
    axes = nest.collapse(sizes, strides)
    kinds = [_kind(axes[-1].strides[i] if axes else None, block, b) for i, b in enumerate(in_blocks)]
    if None in kinds:
        # Nothing runs along the innermost axis in every operand: rows of one element.
        axes.append(Axis(1, (0,) * len(refs)))
        kinds = [VECTOR if b or not block else SCALAR for b in in_blocks]
    nbytes = sum(v.tensor.nbytes for v in region.results) + sum(leaf.value.tensor.nbytes for leaf in region.leaves)
    streaming = not block and len(axes) == 1 and nbytes >= context.target.l3_bytes and all(map(_streamable, outputs))
    form = Form(tuple(str(k) for k in kinds[: len(region.leaves)]), whole=bool(block), streaming=streaming)
    inner, rest = _cut(axes, [max(block, 1) if k == VECTOR else int(k == SPREAD) for k in kinds], workers)
    numbers = [*inner, *nest.row_parameters(rest, len(refs), workers)]
    step = NativeStep(address(region, form, isa), tuple(refs), nest.parameters(*numbers), True, "pointwise", workers)
    return NativeKernel((step,))


def _kind(stride: int | None, block: int, blocked: bool) -> str | None:
    """How an operand with ``stride`` moves along the innermost axis; None if in no way that the kernel knows."""
    if stride is None:
        return None
    if blocked:
        return {0: LANES, block: VECTOR}.get(stride)
    return {0: SCALAR, 1: SPREAD if block else VECTOR}.get(stride)


def _streamable(view: TensorView) -> bool:
    return view.buffer.kind is BufferKind.ARENA and view.offset * 4 % 64 == 0 and view.type.dtype == np.float32


def _cut(axes: Sequence[Axis], along: Sequence[int], workers: int) -> tuple[tuple[int, int, int], list[Axis]]:
    """(row length, limit, step) and the axes around, with long rows cut into pieces if there are few of them."""
    length, outer = axes[-1].size, list(axes[:-1])
    count = int(np.prod([a.size for a in outer], dtype=np.int64))
    if workers == 1 or count >= ROWS_PER_THREAD * workers:
        return (length, length, 0), outer
    wanted = -(-ROWS_PER_THREAD * workers // count)
    piece = -(-length // (wanted * PIECE)) * PIECE
    outer.append(Axis(-(-length // piece), tuple(piece * a for a in along)))
    return (piece, length, piece), outer
