"""MatMul and Gemm in float32, with whatever pointwise work follows them."""

from __future__ import annotations

from autofusion.kernels import MATMUL

OPERATORS = MATMUL.anchors

__all__ = ["OPERATORS"]
