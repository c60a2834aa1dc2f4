"""MaxPool, AveragePool and their global forms."""

from __future__ import annotations

from autofusion_kernels_cpu.pooling.problem import KINDS

OPERATORS = tuple(KINDS)

__all__ = ["OPERATORS"]
