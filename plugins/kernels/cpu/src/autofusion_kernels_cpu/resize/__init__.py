"""Resize in all its coordinate and interpolation modes."""

from __future__ import annotations

from autofusion_kernels_cpu.resize.offers import offers

OPERATORS = ("Resize",)

__all__ = ["OPERATORS", "offers"]
