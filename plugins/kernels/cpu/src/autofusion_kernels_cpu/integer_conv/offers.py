"""Offers for ConvInteger and fused nodes of kind ``integer_conv``."""

from __future__ import annotations

from functools import partial

from autofusion.ir.graph import Node
from autofusion.kernels import Layout, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.integer.form import Form, form_for
from autofusion_kernels_cpu.integer_conv.bind import bind, needs_image, scratch_bytes
from autofusion_kernels_cpu.integer_conv.problem import integer_conv_of
from autofusion_kernels_cpu.integer_conv.schedule import estimate
from autofusion_kernels_cpu.support import anew


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers for a convolution of 8-bit integers with constant weights."""
    problem = integer_conv_of(node)
    if isinstance(problem, Refusal):
        return problem
    isa = isa_of(target)
    form = form_for(isa) if problem.fits_bytes else Form.WORDS
    prepared, layout = needs_image(problem, form), Layout(isa.lanes)
    cost = estimate(problem, form, isa, target, prepared)
    return [
        Offer(
            kernel=f"integer_conv.{form.name.lower()}",
            inputs=problem.operands(layout, () if prepared else problem.geometry.border),
            outputs=(Operand(layout, bordered=True),),
            bind=partial(bind, problem, form, isa, cost.workers),
            seconds=cost.seconds,
            scratch=scratch_bytes(problem, form, isa),
            numerics=problem.epilogue.region.numerics,
            resize=partial(anew, offers, node, target),
        )
    ]
