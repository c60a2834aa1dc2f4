"""Pointwise operators and regions of them: one pass over memory, whatever is computed on the way."""

from __future__ import annotations

from collections.abc import Mapping

from autofusion_kernels_cpu.codegen.pointwise_ops import OPS
from autofusion_kernels_cpu.pointwise.offers import KIND, offers

OPERATORS = tuple(OPS)
KINDS: Mapping[str, str] = {KIND: "1"}

__all__ = ["KINDS", "OPERATORS", "offers"]
