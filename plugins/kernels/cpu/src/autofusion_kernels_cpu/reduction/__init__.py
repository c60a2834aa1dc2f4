"""Reductions over any axes, Softmax, normalisations, ArgMax: one sweep, several programs."""

from __future__ import annotations

from autofusion.kernels import LAYER_NORM, REDUCTION, SOFTMAX

OPERATORS = ("LRN", *(name for kind in (REDUCTION, SOFTMAX, LAYER_NORM) for name in kind.anchors))

__all__ = ["OPERATORS"]
