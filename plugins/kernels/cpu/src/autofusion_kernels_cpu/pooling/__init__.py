"""MaxPool, AveragePool and their global forms."""

from __future__ import annotations

from autofusion_kernels_cpu.pooling.offer import OPERATORS, offers

__all__ = ["OPERATORS", "offers"]
