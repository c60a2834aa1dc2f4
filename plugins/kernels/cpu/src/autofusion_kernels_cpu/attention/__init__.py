"""Scaled dot-product attention in one pass."""

from __future__ import annotations

from collections.abc import Mapping

from autofusion_kernels_cpu.attention.offers import KIND, offers

OPERATORS: tuple[str, ...] = ()
KINDS: Mapping[str, str] = {KIND: "1"}

__all__ = ["KINDS", "OPERATORS", "offers"]
