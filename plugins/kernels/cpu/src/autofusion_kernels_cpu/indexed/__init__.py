"""Operators whose positions are computed while they run: gathers and scatters of elements and rows, triangles, sums."""

from __future__ import annotations

OPERATORS = (
    "CumProd",
    "CumSum",
    "GatherElements",
    "MaxUnpool",
    "ReverseSequence",
    "RotaryEmbedding",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "TensorScatter",
    "Trilu",
)

__all__ = ["OPERATORS"]
