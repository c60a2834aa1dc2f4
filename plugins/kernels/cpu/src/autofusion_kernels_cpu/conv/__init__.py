"""Convolutions with fused epilogues, on channel-blocked tensors."""

from __future__ import annotations

from autofusion_kernels_cpu.conv.offers import offers

OPERATORS = ("Conv", "ConvTranspose")

__all__ = ["OPERATORS", "offers"]
