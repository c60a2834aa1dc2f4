"""Products of 8-bit integers, with whatever pointwise work follows them, and quantisation by a tensor's own range."""

from __future__ import annotations

from autofusion_kernels_cpu.integer.offers import offers

OPERATORS = ("DynamicQuantizeLinear", "MatMulInteger")

__all__ = ["OPERATORS", "offers"]
