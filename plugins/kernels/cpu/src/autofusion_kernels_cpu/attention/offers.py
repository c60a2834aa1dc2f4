"""Offers for fused nodes of kind ``attention``."""

from __future__ import annotations

from functools import partial

from autofusion.ir.graph import Node
from autofusion.kernels import Numerics, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.attention.bind import bind, scratch_bytes
from autofusion_kernels_cpu.attention.problem import attention_of
from autofusion_kernels_cpu.attention.schedule import estimate
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.support import anew


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """One offer for float32 attention on plain tensors: any head length, any number of queries and keys."""
    problem = attention_of(node)
    if isinstance(problem, Refusal):
        return problem
    isa = isa_of(target)
    cost = estimate(node, problem, isa, target)
    return [
        Offer(
            kernel="attention.tiled",
            inputs=tuple(None if v is None else Operand(strided=True) for v in node.inputs),
            outputs=(Operand(strided=True),),
            bind=partial(bind, problem, isa, cost.workers),
            seconds=cost.seconds,
            scratch=target.threads * scratch_bytes(problem, isa),
            numerics=Numerics.REASSOCIATED,
            resize=partial(anew, offers, node, target),
        )
    ]
