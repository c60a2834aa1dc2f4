"""Offers for MatMulInteger, fused nodes of kind ``integer_matmul``, and DynamicQuantizeLinear."""

from __future__ import annotations

from functools import partial

from autofusion.ir.graph import Node
from autofusion.kernels import Numerics, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.estimate import node_estimate
from autofusion_kernels_cpu.integer import quantise
from autofusion_kernels_cpu.integer.bind import bind, scratch_bytes
from autofusion_kernels_cpu.integer.form import form_for
from autofusion_kernels_cpu.integer.problem import integer_product_of
from autofusion_kernels_cpu.integer.schedule import estimate
from autofusion_kernels_cpu.support import anew


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers for a product of 8-bit integers by a constant, or for quantising a tensor by its own range."""
    return _quantise(node, target) if node.op == "DynamicQuantizeLinear" else _product(node, target)


def _product(node: Node, target: Target) -> list[Offer] | Refusal:
    problem = integer_product_of(node)
    if isinstance(problem, Refusal):
        return problem
    isa = isa_of(target)
    form = form_for(isa)
    cost = estimate(node, problem, form, isa, target)
    strided = {leaf.operand for leaf in problem.product.region.leaves} - {problem.product.a}
    return [
        Offer(
            kernel=f"integer.{form.name.lower()}",
            inputs=tuple(None if v is None else Operand(strided=i in strided) for i, v in enumerate(node.inputs)),
            outputs=tuple(Operand(strided=True) for _ in node.outputs),
            bind=partial(bind, problem, form, isa, cost.workers),
            seconds=cost.seconds,
            scratch=scratch_bytes(problem, form, isa),
            numerics=problem.product.region.numerics,
            resize=partial(anew, offers, node, target),
        )
    ]


def _quantise(node: Node, target: Target) -> list[Offer] | Refusal:
    x = node.inputs[0]
    assert x is not None
    if x.tensor.dtype.name != "float32":
        return Refusal(f"it quantises {x.tensor.dtype}, only float32 is supported")
    cost = node_estimate(node, target)
    return [
        Offer(
            kernel="integer.quantise",
            inputs=(Operand(),),
            outputs=tuple(Operand() for _ in node.outputs),
            bind=partial(quantise.bind, isa_of(target), cost.workers),
            seconds=cost.seconds,
            scratch=quantise.scratch_bytes(cost.workers),
            numerics=Numerics.EXACT,
            resize=partial(anew, offers, node, target),
        )
    ]
