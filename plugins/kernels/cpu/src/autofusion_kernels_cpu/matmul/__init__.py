"""MatMul and Gemm in float32, with whatever pointwise work follows them."""

from __future__ import annotations

from collections.abc import Mapping

from autofusion_kernels_cpu.matmul.offers import KIND, offers
from autofusion_kernels_cpu.matmul.problem import ANCHORS

OPERATORS = ANCHORS
KINDS: Mapping[str, str] = {KIND: "1"}

__all__ = ["KINDS", "OPERATORS", "offers"]
