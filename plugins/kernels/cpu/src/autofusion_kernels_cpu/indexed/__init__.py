"""Operators whose positions are computed while they run: gathers and scatters of elements and rows, triangles, sums."""

from __future__ import annotations

from autofusion_kernels_cpu.indexed.offers import OFFERS, offers

OPERATORS = tuple(OFFERS)

__all__ = ["OPERATORS", "offers"]
