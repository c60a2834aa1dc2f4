"""Convolutions of 8-bit integers on channel-blocked tensors, with whatever pointwise work and quantisation follow."""

from __future__ import annotations

from autofusion.kernels import INTEGER_CONV

OPERATORS = INTEGER_CONV.anchors

__all__ = ["OPERATORS"]
