"""GridSample, RoiAlign, DeformConv and Col2Im: every result element is a weighted sum of a few elements of its map."""

from __future__ import annotations

OPERATORS = ("GridSample", "RoiAlign", "DeformConv", "Col2Im")

__all__ = ["OPERATORS"]
