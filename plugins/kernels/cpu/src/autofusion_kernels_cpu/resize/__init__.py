"""Resize in all its coordinate and interpolation modes."""

from __future__ import annotations

from autofusion_kernels_cpu.resize.offer import offers

OPERATORS = ("Resize",)

__all__ = ["OPERATORS", "offers"]
