"""Convolutions with fused epilogues, on channel-blocked tensors."""

from __future__ import annotations

from autofusion_kernels_cpu.conv.offers import offers

OPERATORS = ("Conv", "ConvTranspose")
KINDS = {"conv": "1"}

__all__ = ["KINDS", "OPERATORS", "offers"]
