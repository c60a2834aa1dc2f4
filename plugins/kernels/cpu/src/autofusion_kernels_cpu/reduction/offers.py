"""Offers for reductions, Softmax and normalisations, alone or with the pointwise work around them."""

from __future__ import annotations

from functools import partial

from autofusion.ir.graph import FUSED, Node
from autofusion.kernels import PLAIN, Layout, Numerics, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.estimate import node_estimate
from autofusion_kernels_cpu.reduction import lrn
from autofusion_kernels_cpu.reduction.bind import bind
from autofusion_kernels_cpu.reduction.problem import Problem, problem_of
from autofusion_kernels_cpu.support import again


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers on plain tensors, and on channel-blocked ones where only spatial axes are reduced."""
    if node.op == lrn.OPERATOR:
        return lrn.offers(node, target)
    problem = problem_of(node)
    if isinstance(problem, Refusal):
        return problem
    isa = isa_of(target)
    blocked = Layout(isa.lanes)
    ways = ((PLAIN, PLAIN), (blocked, blocked), (blocked, PLAIN))
    found = [_offer(problem, node, layout, result, isa, target) for layout, result in ways]
    return [offer for offer in found if offer is not None]


def _fits(problem: Problem, result: Layout, isa: Isa) -> bool:
    """True if channel-blocked operands can be reduced to a result of that layout."""
    if not problem.is_blockable or result.block:
        return problem.is_blockable and problem.keeps_axes
    # The usual end of a convolutional network: whole blocks of totals are plain already.
    one_a_channel = all(d == 1 for i, d in enumerate(problem.space) if i > 1 and i not in problem.axes)
    return one_a_channel and not problem.full_results and not problem.row and problem.space[1] % isa.lanes == 0


def _offer(problem: Problem, node: Node, layout: Layout, result: Layout, isa: Isa, target: Target) -> Offer | None:
    if layout.block and not _fits(problem, result, isa):
        return None
    estimate = node_estimate(node, target)
    blocked = {
        leaf.operand
        for leaf in (*problem.full, *problem.row)
        if layout.block and leaf.constant is None and problem.in_blocks(leaf)
    }
    name = problem.anchor.op if node.op != FUSED else node.attrs["kind"]
    return Offer(
        kernel=f"reduction.{name}",
        inputs=tuple(
            None if v is None else Operand(layout if i in blocked else PLAIN, strided=True)
            for i, v in enumerate(node.inputs)
        ),
        outputs=tuple(Operand(result, bordered=bool(result.block), strided=result == layout) for _ in node.outputs),
        bind=partial(bind, problem, layout.block, isa, estimate.workers),
        seconds=estimate.seconds,
        numerics=Numerics.REASSOCIATED,
        inplace=_inplace(problem),
        resize=partial(again, partial(problem_of, node), _offer, node, layout, result, isa, target),
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
