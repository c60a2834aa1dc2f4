"""Scaled dot-product attention in one pass."""

from __future__ import annotations

OPERATORS: tuple[str, ...] = ()

__all__ = ["OPERATORS"]
