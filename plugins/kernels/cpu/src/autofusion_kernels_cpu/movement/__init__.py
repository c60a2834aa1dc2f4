"""Concat, Split, Slice, Transpose, Pad, Gather and their like: elements move, nothing is computed."""

from __future__ import annotations

from autofusion_kernels_cpu.movement.operators import MOVEMENTS

OPERATORS = tuple(MOVEMENTS)

__all__ = ["OPERATORS"]
