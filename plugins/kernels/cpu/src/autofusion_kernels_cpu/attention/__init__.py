"""Scaled dot-product attention in one pass."""

from __future__ import annotations

from autofusion_kernels_cpu.attention.offers import offers

OPERATORS: tuple[str, ...] = ()

__all__ = ["OPERATORS", "offers"]
