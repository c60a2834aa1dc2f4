"""Reductions over any axes, Softmax, normalisations, ArgMax: one sweep, several programs."""

from __future__ import annotations

from collections.abc import Mapping

from autofusion_kernels_cpu.reduction import offers as _offers
from autofusion_kernels_cpu.reduction.offers import offers
from autofusion_kernels_cpu.reduction.problem import ANCHORS

OPERATORS = tuple(sorted(ANCHORS))
KINDS: Mapping[str, str] = dict.fromkeys(_offers.KINDS, "1")

__all__ = ["KINDS", "OPERATORS", "offers"]
