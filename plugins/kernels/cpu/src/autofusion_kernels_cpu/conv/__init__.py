"""Convolutions with fused epilogues, on channel-blocked tensors."""

from __future__ import annotations

from autofusion.kernels import CONV

OPERATORS = CONV.anchors

__all__ = ["OPERATORS"]
