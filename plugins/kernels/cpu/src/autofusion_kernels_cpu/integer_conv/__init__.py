"""Convolutions of 8-bit integers on channel-blocked tensors, with whatever pointwise work and quantisation follow."""

from __future__ import annotations

from autofusion.kernels import INTEGER_CONV
from autofusion_kernels_cpu.integer_conv.offers import offers

OPERATORS = INTEGER_CONV.anchors

__all__ = ["OPERATORS", "offers"]
