"""What a pooling costs, in channel blocks and on plain tensors."""

from __future__ import annotations

import math

from autofusion.kernels import Target
from autofusion_kernels_cpu.estimate import Estimate, filled, roofline
from autofusion_kernels_cpu.pooling.problem import Pooling

# A tap is a load and a (NaN keeping) maximum, about three instructions a vector at two a cycle, where the peak has two
# multiply-adds.
_TAP_FLOPS = 6.0


def _flops(problem: Pooling) -> float:
    return _TAP_FLOPS * problem.y.numel * math.prod(axis.kernel for axis in problem.axes)


def blocked_estimate(problem: Pooling, target: Target) -> Estimate:
    """Time on blocked tensors: lanes past the channels take as long as the others."""
    padding = filled(problem.x.static_shape[1], target.lanes)
    nbytes = problem.x.nbytes + problem.y.nbytes
    return roofline(target, _flops(problem) * padding, nbytes * padding)


def plain_estimate(problem: Pooling, target: Target) -> Estimate:
    """Time on plain tensors: a row that does not fill its vectors takes as long as one that does."""
    padding = filled(problem.y.static_shape[-1], target.lanes)
    # A gather brings about one lane a cycle.
    slowdown = 3.0 if problem.axes[-1].stride == 1 else float(target.lanes)
    return roofline(target, _flops(problem) * padding * slowdown, problem.x.nbytes + problem.y.nbytes)
