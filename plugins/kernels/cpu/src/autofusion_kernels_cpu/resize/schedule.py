"""What a Resize costs, in channel blocks and on plain tensors."""

from __future__ import annotations

from autofusion.kernels import Target
from autofusion_kernels_cpu.estimate import Estimate, filled, roofline
from autofusion_kernels_cpu.resize.problem import Resizing

# A tap is a load and a multiply-add.
_TAP_FLOPS = 4.0


def blocked_estimate(problem: Resizing, target: Target) -> Estimate:
    """Time on blocked tensors: lanes past the channels take as long as the others."""
    padding = filled(problem.x.static_shape[1], target.lanes)
    flops, nbytes = _TAP_FLOPS * problem.y.numel * problem.mixed, problem.x.nbytes + problem.y.nbytes
    return roofline(target, flops * padding, nbytes * padding)


def plain_estimate(problem: Resizing, target: Target) -> Estimate:
    """Time on plain tensors: a row that does not fill its vectors takes as long as one that does."""
    padding = filled(problem.y.static_shape[-1], target.lanes)
    flops, nbytes = _TAP_FLOPS * problem.y.numel * problem.mixed, problem.x.nbytes + problem.y.nbytes
    # A gather brings about one lane a cycle.
    return roofline(target, flops * padding * target.lanes / 2, nbytes)
