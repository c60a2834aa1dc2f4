"""LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Mapping

from autofusion_kernels_cpu.recurrent.offer import offers

OPERATORS = ("LSTM", "GRU", "RNN")
KINDS: Mapping[str, str] = {}

__all__ = ["KINDS", "OPERATORS", "offers"]
