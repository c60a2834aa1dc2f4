"""MatMul and Gemm in float32, with whatever pointwise work follows them."""

from __future__ import annotations

from autofusion_kernels_cpu.matmul.offers import offers
from autofusion_kernels_cpu.matmul.problem import ANCHORS

OPERATORS = ANCHORS

__all__ = ["OPERATORS", "offers"]
