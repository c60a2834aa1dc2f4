"""Offers for ConvInteger and fused nodes of kind ``integer_conv``."""

from __future__ import annotations

from functools import partial

from autofusion.ir.graph import Node
from autofusion.kernels import Layout, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.integer.form import Form, form_for
from autofusion_kernels_cpu.integer_conv.bind import Way, bind, fits_planar, needs_image, scratch_bytes
from autofusion_kernels_cpu.integer_conv.problem import IntegerConv, integer_conv_of
from autofusion_kernels_cpu.integer_conv.rows import fits_rows
from autofusion_kernels_cpu.integer_conv.schedule import estimate


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """Offers for a convolution of 8-bit integers with constant weights."""
    problem = integer_conv_of(node)
    if isinstance(problem, Refusal):
        return problem
    isa = isa_of(target)
    form = form_for(isa) if problem.fits_bytes else Form.WORDS
    ways = [Way.BLOCKED]
    if fits_rows(problem):
        ways = [Way.ROWS]
    elif fits_planar(problem, form) and not problem.reads_input_twice:
        ways.append(Way.PLANAR)
    return [_offer(problem, form, way, target) for way in ways]


def _offer(problem: IntegerConv, form: Form, way: Way, target: Target) -> Offer:
    isa, layout = isa_of(target), Layout(target.lanes)
    prepared = needs_image(problem, form, way)
    cost = estimate(problem, form, isa, target, prepared, rows=way is Way.ROWS)
    border = () if prepared or way is Way.ROWS else problem.geometry.border
    source = Operand() if way is Way.PLANAR else Operand(layout, border)
    return Offer(
        kernel=f"integer_conv.{form.name.lower() if way is Way.BLOCKED else way.value}",
        inputs=problem.operands(layout, source),
        outputs=(Operand(layout, bordered=True),),
        bind=partial(bind, problem, form, way, isa, cost.workers),
        seconds=cost.seconds,
        scratch=scratch_bytes(problem, form, isa, way, cost.workers),
        numerics=problem.epilogue.region.numerics,
    )
