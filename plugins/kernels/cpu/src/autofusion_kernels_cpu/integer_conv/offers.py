"""Offers for ConvInteger and fused nodes of kind ``integer_conv``."""

from __future__ import annotations

from functools import partial

from autofusion.ir.graph import Node
from autofusion.kernels import Layout, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.integer.form import Form, form_for
from autofusion_kernels_cpu.integer_conv.bind import bind, fits_planar, needs_image, scratch_bytes
from autofusion_kernels_cpu.integer_conv.problem import IntegerConv, integer_conv_of
from autofusion_kernels_cpu.integer_conv.schedule import estimate
from autofusion_kernels_cpu.support import again


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers for a convolution of 8-bit integers with constant weights."""
    problem = integer_conv_of(node)
    if isinstance(problem, Refusal):
        return problem
    isa = isa_of(target)
    form = form_for(isa) if problem.fits_bytes else Form.WORDS
    found = [_offer(problem, form, False, target)]
    if fits_planar(problem, form) and not problem.reads_input_twice:
        found.append(_offer(problem, form, True, target))
    return found


def _offer(problem: IntegerConv, form: Form, planar: bool, target: Target) -> Offer:
    isa, layout = isa_of(target), Layout(target.lanes)
    prepared = needs_image(problem, form, planar)
    cost = estimate(problem, form, isa, target, prepared)
    source = Operand() if planar else Operand(layout, () if prepared else problem.geometry.border)
    return Offer(
        kernel=f"integer_conv.{'planar' if planar else form.name.lower()}",
        inputs=problem.operands(layout, source),
        outputs=(Operand(layout, bordered=True),),
        bind=partial(bind, problem, form, planar, isa, cost.workers),
        seconds=cost.seconds,
        scratch=scratch_bytes(problem, form, isa, planar),
        numerics=problem.epilogue.region.numerics,
        resize=partial(again, partial(integer_conv_of, problem.node), _resized, form, planar, target),
    )


def _resized(problem: IntegerConv, form: Form, planar: bool, target: Target) -> Offer | None:
    return None if planar and not fits_planar(problem, form) else _offer(problem, form, planar, target)
