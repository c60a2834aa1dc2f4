"""MatMul and Gemm in float32, with whatever pointwise work follows them."""

from __future__ import annotations

from autofusion.kernels import MATMUL
from autofusion_kernels_cpu.matmul.offers import offers

OPERATORS = MATMUL.anchors

__all__ = ["OPERATORS", "offers"]
