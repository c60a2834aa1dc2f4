"""Convolutions with fused epilogues, on channel-blocked tensors."""

from __future__ import annotations

from autofusion.kernels import CONV
from autofusion_kernels_cpu.conv.offers import offers

OPERATORS = CONV.anchors

__all__ = ["OPERATORS", "offers"]
