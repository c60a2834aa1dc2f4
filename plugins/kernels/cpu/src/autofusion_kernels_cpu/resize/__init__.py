"""Resize in all its coordinate and interpolation modes."""

from __future__ import annotations

from collections.abc import Mapping

from autofusion_kernels_cpu.resize.offer import offers

OPERATORS = ("Resize",)
KINDS: Mapping[str, str] = {}

__all__ = ["KINDS", "OPERATORS", "offers"]
