"""Resize in all its coordinate and interpolation modes."""

from __future__ import annotations

OPERATORS = ("Resize",)

__all__ = ["OPERATORS"]
