"""Offers of Winograd convolutions, one for each side of tiles."""

from __future__ import annotations

from functools import partial

from autofusion.kernels import Layout, Numerics, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.conv.geometry import AXES, Geometry
from autofusion_kernels_cpu.conv.problem import ConvProblem
from autofusion_kernels_cpu.conv.winograd import schedule
from autofusion_kernels_cpu.conv.winograd.bind import bind
from autofusion_kernels_cpu.conv.winograd.layer import scratch_of
from autofusion_kernels_cpu.conv.winograd.transforms import TAPS
from autofusion_kernels_cpu.support import again


def offer(problem: ConvProblem, target: Target, tile: int) -> Offer | Refusal:
    """On channel blocks, by output tiles of `tile` pixels a side."""
    if not applies(problem.geometry):
        return Refusal("it is not a 3x3 convolution with stride 1")
    layout = Layout(target.lanes)
    plan = schedule.plan(problem.geometry, tile, problem.moved_bytes(layout, layout), target)
    floats = scratch_of(problem.geometry, plan, isa_of(target).lanes).floats
    return Offer(
        f"conv.winograd{tile}",
        problem.operands(layout, border(problem.geometry, tile), layout),
        (Operand(layout, bordered=True),),
        partial(bind, problem, plan),
        seconds=plan.seconds,
        scratch=4 * floats * plan.tile_threads * plan.filter_threads,
        numerics=Numerics.APPROXIMATE,
        resize=partial(again, problem.resized, offer, target, tile),
    )


def applies(geometry: Geometry) -> bool:
    """True for 3x3 convolutions with stride 1, neither dilated nor grouped, of every image and depth on its own."""
    depth, *plane = geometry.axes
    flat = depth.kernel == 1 and depth.stride == 1 and depth.low == 0 and depth.out == depth.size
    square = all(a.kernel == TAPS and a.stride == 1 and a.dilation == 1 for a in plane)
    return geometry.rank >= 2 and not geometry.transposed and geometry.groups == 1 and flat and square


def border(geometry: Geometry, tile: int) -> tuple[int, ...]:
    """Zeros that whole tiles read around the input, over the node's axes in the order of pads."""
    own = geometry.axes[AXES - geometry.rank :]
    high = [0] * (geometry.rank - 2)
    for axis in own[-2:]:
        high.append(max(-(-axis.out // tile) * tile + TAPS - 1 - axis.low - axis.size, 0))
    return tuple(max(a.low, 0) for a in own) + tuple(high)
