"""What sampling costs."""

from __future__ import annotations

from autofusion.ir.types import TensorType
from autofusion.kernels import Target
from autofusion_kernels_cpu.estimate import Estimate, roofline


def sampling_estimate(y: TensorType, taps: int, target: Target) -> Estimate:
    """Time of a result whose elements sum that many gathered elements: a gather brings about one lane a cycle."""
    return roofline(target, y.numel * taps * target.lanes, y.nbytes * 2)
