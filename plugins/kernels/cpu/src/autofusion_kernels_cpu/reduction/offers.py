"""Offers for reductions, Softmax and normalisations, alone or with the pointwise work around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import FUSED, Node, Value
from autofusion.kernels import (
    PLAIN,
    BindContext,
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
from autofusion_kernels_cpu.codegen.region import Leaf
from autofusion_kernels_cpu.estimate import node_estimate
from autofusion_kernels_cpu.leaves import leaf_memory
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref
from autofusion_kernels_cpu.reduction import sweep
from autofusion_kernels_cpu.reduction.kernel import Form, address
from autofusion_kernels_cpu.reduction.problem import Problem, problem_of
from autofusion_kernels_cpu.reduction.programs import Program

MAX_PARTS = 4


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers on plain tensors, and on channel-blocked ones where only spatial axes are reduced."""
    problem = problem_of(node)
    if isinstance(problem, str):
        return Refusal(problem)
    isa = host_isa(target.isa)
    found = [_offer(node, problem, PLAIN, PLAIN, isa, target)]
    blocked = Layout(isa.lanes)
    if _blockable(problem):
        if problem.keeps_axes:
            found.append(_offer(node, problem, blocked, blocked, isa, target))
        one_a_channel = all(d == 1 for i, d in enumerate(problem.space) if i > 1 and i not in problem.axes)
        if one_a_channel and not problem.full_results and not problem.row and problem.space[1] % isa.lanes == 0:
            # The usual end of a convolutional network: whole blocks of totals are plain already.
            found.append(_offer(node, problem, blocked, PLAIN, isa, target))
    return found


def _offer(node: Node, problem: Problem, layout: Layout, result: Layout, isa: Isa, target: Target) -> Offer:
    estimate = node_estimate(node, target)
    blocked = {
        leaf.operand
        for leaf in (*problem.full, *problem.row)
        if layout.block and leaf.constant is None and _in_blocks(leaf, problem)
    }
    name = problem.anchor.op if node.op != FUSED else node.attrs["kind"]
    return Offer(
        kernel=f"reduction.{name}",
        inputs=tuple(
            None if v is None else Operand(layout if i in blocked else PLAIN, strided=True)
            for i, v in enumerate(node.inputs)
        ),
        outputs=tuple(Operand(result, bordered=bool(result.block), strided=result == layout) for _ in node.outputs),
        bind=partial(_bind, problem, layout.block, isa, estimate.workers),
        seconds=estimate.seconds,
        numerics=Numerics.REASSOCIATED,
        inplace=_inplace(problem),
    )


def _inplace(problem: Problem) -> tuple[tuple[int, int], ...]:
    """(result, operand) pairs of one shape and type.

    The last pass writes an element after reading it. Softmax keeps its exponentials in the result before that, so an
    operand that is read again behind it must stay; and with several results one would overwrite what another needs.
    """
    if len(problem.full_results) != 1:
        return ()
    (number, value), again = problem.full_results[0], {leaf.value for leaf in problem.after.leaves}
    return tuple(
        (number, leaf.operand)
        for leaf in problem.full
        if leaf.operand is not None and leaf.constant is None and leaf.value not in again
        if leaf.shape == problem.space and leaf.dtype == value.tensor.dtype
    )


# --- channel blocks ---------------------------------------------------------------------------------------------------
def _in_blocks(leaf: Leaf, problem: Problem) -> bool:
    axis = 1 - (len(problem.space) - len(leaf.shape))
    channels = leaf.shape[axis] if axis >= 0 else 1
    return channels > 1 or (axis == 1 and problem.space[1] == 1)


def _blockable(problem: Problem) -> bool:
    """True if a vector can be a block of channels: they are kept, and what differs by channel can be had in blocks."""
    if len(problem.space) < 3 or problem.groups or any(a < 2 for a in problem.axes):
        return False
    values = [v for _, v in (*problem.full_results, *problem.row_results)]
    if any(v.tensor.dtype != np.float32 for v in values):
        return False
    for leaf in (*problem.full, *problem.row):
        if leaf.constant is not None or not _in_blocks(leaf, problem):
            continue
        if (
            leaf.dtype != np.float32
            or leaf.value.tensor.static_shape != leaf.shape
            or len(leaf.shape) != len(problem.space)
        ):
            return False
    return True


# --- binding ----------------------------------------------------------------------------------------------------------
def _bind(
    problem: Problem,
    block: int,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
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
    refs: list[Ref] = []
    strides: list[tuple[int, ...]] = []

    def add(ref: Ref, shape: Sequence[int], own: Sequence[int], blocked: bool, row: bool) -> None:
        refs.append(ref)
        strides.append(_over_axes(problem, block, shape, own, blocked, row))

    def split(aligned: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of a plain result over the axes of a blocked nest."""
        return (aligned[0], aligned[1] * block, *aligned[2:-1], aligned[1])

    def add_leaf(leaf: Leaf, row: bool) -> None:
        blocked = bool(block) and _in_blocks(leaf, problem)
        add(*leaf_memory(leaf, inputs, len(space), block if blocked else 0), blocked, row)

    def add_result(number: int, row: bool) -> None:
        view = outputs[number]
        if not view.layout.block:
            add(Ref(view), view.shape, view.strides, False, row)
            if block:
                strides[-1] = split(strides[-1])
            return
        add(Ref(view), (view.shape[0], -(-view.shape[1] // block), *view.shape[2:]), view.strides, True, row)

    for leaf in problem.full:
        add_leaf(leaf, False)
    for number, _ in problem.full_results:
        add_result(number, False)
    full = len(refs)
    for leaf in problem.row:
        add_leaf(leaf, True)
    for number, _ in problem.row_results:
        add_result(number, True)
    plan = _plan(sizes, classes, strides, full, isa, whole=bool(block))
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
    numbers = [len(plan.table), plan.length, plan.columns, *plan.steps]
    numbers += nest.row_parameters(plan.rows, len(refs), workers)
    step = NativeStep(
        address(problem.signature(), program, plan.form, isa),
        (Ref(plan.table), *refs),
        nest.parameters(*numbers),
        name=f"reduction.{problem.anchor.op}",
        workers=workers,
    )
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


class _Plan:
    """How the axes are walked."""

    __slots__ = ("columns", "form", "kinds", "length", "rows", "steps", "table")

    def __init__(
        self,
        form: Form,
        kinds: list[str],
        rows: list[Axis],
        table: np.ndarray,
        length: int,
        steps: Sequence[int],
        columns: int,
    ) -> None:
        self.form, self.kinds, self.rows, self.table = form, kinds, rows, table
        self.length, self.steps, self.columns = length, steps, columns


def _plan(
    sizes: Sequence[int],
    classes: Sequence[bool],
    strides: Sequence[Sequence[int]],
    full: int,
    isa: Isa,
    whole: bool,
) -> _Plan:
    count = len(strides)
    axes = _collapse(sizes, classes, strides)
    if whole:
        # The lanes of a channel block are never merged with anything, and lie together.
        assert all(s[-1] in (0, 1) for s in strides), strides
        axes = [*_collapse(sizes[:-1], classes[:-1], [s[:-1] for s in strides])]
        axes.append((Axis(sizes[-1], tuple(s[-1] for s in strides)), False))
    moving = axes[-1][0].strides if axes else ()
    if not axes or not set(moving if not axes[-1][1] else moving[:full]) <= {0, 1}:
        axes.append((Axis(1, (1,) * count), False))
    last, along = axes[-1]
    kept = [a for a, r in axes[:-1] if not r]
    reduced = [a for a, r in axes[:-1] if r]
    kinds = [sweep.VECTOR if s else sweep.SCALAR for s in last.strides]
    if along:
        kinds[full:] = [sweep.SCALAR] * (count - full)
        table = nest.offsets([Axis(a.size, a.strides[:full]) for a in reduced], full)
        return _Plan(Form(True), kinds, kept, table, last.size, (0,) * full, 1)
    vectors = -(-last.size // isa.lanes)
    parts = 1 if vectors == 1 else 2 if vectors == 2 else MAX_PARTS
    width = parts * isa.lanes
    if not whole:
        kept.append(Axis(-(-last.size // width), tuple(width * s for s in last.strides)))
    inner = reduced.pop() if reduced else Axis(1, (0,) * count)
    table = nest.offsets([Axis(a.size, a.strides[:full]) for a in reduced], full)
    form = Form(False, parts, 4 if parts == 1 else 1, whole)
    return _Plan(form, kinds, kept, table, inner.size, inner.strides[:full], last.size)


def _collapse(
    sizes: Sequence[int], classes: Sequence[bool], strides: Sequence[Sequence[int]]
) -> list[tuple[Axis, bool]]:
    """``nest.collapse`` that keeps reduced and other axes apart."""
    found: list[tuple[Axis, bool]] = []
    for i, (size, reduced) in enumerate(zip(sizes, classes, strict=True)):
        if size == 1:
            continue
        here = tuple(s[i] for s in strides)
        if found and found[-1][1] == reduced:
            before = found[-1][0]
            if all(a == b * size for a, b in zip(before.strides, here, strict=True)):
                found[-1] = (Axis(math.prod((before.size, size)), here), reduced)
                continue
        found.append((Axis(size, here), reduced))
    return found
