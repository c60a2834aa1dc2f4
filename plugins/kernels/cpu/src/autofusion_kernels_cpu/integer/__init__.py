"""Products of 8-bit integers, with whatever pointwise work follows them, and quantisation by a tensor's own range."""

from __future__ import annotations

from autofusion.kernels import INTEGER_MATMUL

OPERATORS = ("DynamicQuantizeLinear", *INTEGER_MATMUL.anchors)

__all__ = ["OPERATORS"]
