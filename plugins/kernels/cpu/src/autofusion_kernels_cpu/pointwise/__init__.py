"""Pointwise operators and regions of them: one pass over memory, whatever is computed on the way."""

from __future__ import annotations

from autofusion_kernels_cpu.codegen.pointwise_ops import OPS

OPERATORS = tuple(OPS)

__all__ = ["OPERATORS"]
