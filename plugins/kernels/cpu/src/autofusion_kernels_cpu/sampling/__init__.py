"""GridSample, RoiAlign, DeformConv and Col2Im: every result element is a weighted sum of a few elements of its map."""

from __future__ import annotations

from autofusion_kernels_cpu.sampling.offers import OFFERS, offers

OPERATORS = tuple(OFFERS)

__all__ = ["OPERATORS", "offers"]
