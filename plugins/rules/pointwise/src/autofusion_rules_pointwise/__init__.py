"""Pointwise and reduction region rules."""
