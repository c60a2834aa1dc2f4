"""Offers for MatMul, Gemm and fused nodes of kind ``matmul``."""

from __future__ import annotations

from functools import partial

from autofusion.ir.graph import Node
from autofusion.kernels import Numerics, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.matmul.bind import bind
from autofusion_kernels_cpu.matmul.pack import padded_steps
from autofusion_kernels_cpu.matmul.problem import product_of
from autofusion_kernels_cpu.matmul.schedule import estimate
from autofusion_kernels_cpu.matmul.tile import MAX_PANELS, panel_width
from autofusion_kernels_cpu.support import anew


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers for a float32 matrix product, alone or with a pointwise epilogue."""
    product = product_of(node)
    if isinstance(product, Refusal):
        return product
    isa = isa_of(target)
    scratch = 0
    if product.constant is None:
        scratch = target.threads * MAX_PANELS * padded_steps(isa, product.k) * panel_width(isa) * 4
    factors = {product.a, product.b}
    shared = tuple(
        (r, leaf.operand)
        for r, value in enumerate(product.region.results)
        for leaf in product.region.leaves
        if leaf.operand is not None and leaf.operand not in factors and leaf.constant is None
        if leaf.shape == product.space and leaf.dtype == value.tensor.dtype
    )
    cost = estimate(node, product, isa, target)
    return [
        Offer(
            kernel="matmul.packed" if product.constant is not None else "matmul.dynamic",
            inputs=tuple(None if v is None else Operand(strided=True) for v in node.inputs),
            outputs=tuple(Operand(strided=True) for _ in node.outputs),
            bind=partial(bind, product, isa, cost.workers),
            seconds=cost.seconds,
            scratch=scratch,
            numerics=Numerics.REASSOCIATED,
            inplace=shared,
            resize=partial(anew, offers, node, target),
        )
    ]
