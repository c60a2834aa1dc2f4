"""Products of 8-bit integers, with whatever pointwise work follows them, and quantisation by a tensor's own range."""

from __future__ import annotations

from autofusion.kernels import INTEGER_MATMUL
from autofusion_kernels_cpu.integer.offers import offers

OPERATORS = ("DynamicQuantizeLinear", *INTEGER_MATMUL.anchors)

__all__ = ["OPERATORS", "offers"]
