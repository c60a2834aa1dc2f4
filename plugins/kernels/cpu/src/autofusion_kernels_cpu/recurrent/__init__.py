"""LSTM, GRU and RNN."""

from __future__ import annotations

from autofusion_kernels_cpu.recurrent.offers import offers

OPERATORS = ("LSTM", "GRU", "RNN")

__all__ = ["OPERATORS", "offers"]
