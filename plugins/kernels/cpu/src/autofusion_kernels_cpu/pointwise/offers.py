"""Offers for pointwise regions, on plain and on channel-blocked tensors."""

from __future__ import annotations

from functools import partial

from autofusion.ir.graph import FUSED, Node
from autofusion.kernels import PLAIN, Layout, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.estimate import node_estimate
from autofusion_kernels_cpu.pointwise.bind import bind
from autofusion_kernels_cpu.pointwise.problem import Pointwise, pointwise_of
from autofusion_kernels_cpu.support import again


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers for a pointwise operator, or a fused node of kind ``pointwise`` with any operands and results."""
    problem = pointwise_of(node)
    if isinstance(problem, Refusal):
        return problem
    isa = isa_of(target)
    found = [_offer(problem, layout, target, isa) for layout in (PLAIN, Layout(isa.lanes))]
    return [offer for offer in found if offer is not None]


def _offer(problem: Pointwise, layout: Layout, target: Target, isa: Isa) -> Offer | None:
    node, region = problem.node, problem.region
    in_blocks = problem.blocked_operands() if layout.block else frozenset()
    if in_blocks is None:
        return None
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
        if leaf.shape == problem.space and leaf.value.tensor.dtype == value.tensor.dtype
    )
    return Offer(
        kernel="pointwise.region" if node.op == FUSED else "pointwise.operator",
        inputs=inputs,
        outputs=outputs,
        bind=partial(bind, problem, layout, isa, estimate.workers),
        seconds=estimate.seconds,
        numerics=region.numerics,
        inplace=shared,
        resize=partial(again, partial(pointwise_of, node), _offer, layout, target, isa),
    )
