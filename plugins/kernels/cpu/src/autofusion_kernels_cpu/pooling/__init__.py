"""MaxPool, AveragePool and their global forms."""

from __future__ import annotations

from collections.abc import Mapping

from autofusion_kernels_cpu.pooling.offer import OPERATORS, offers

KINDS: Mapping[str, str] = {}

__all__ = ["KINDS", "OPERATORS", "offers"]
