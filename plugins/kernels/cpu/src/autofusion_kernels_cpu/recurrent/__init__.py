"""LSTM, GRU and RNN."""

from __future__ import annotations

OPERATORS = ("LSTM", "GRU", "RNN")

__all__ = ["OPERATORS"]
