"""Reductions over any axes, Softmax, normalisations, ArgMax: one sweep, several programs."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Node
from autofusion.kernels import Offer, Refusal, Target
from autofusion_kernels_cpu.reduction import lrn
from autofusion_kernels_cpu.reduction import offers as sweeping
from autofusion_kernels_cpu.reduction.problem import KINDS

OPERATORS = (lrn.OPERATOR, *(name for kind in KINDS for name in kind.anchors))


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Offers for a node of one of ``OPERATORS`` or a fused kind of the family."""
    return (lrn if node.op == lrn.OPERATOR else sweeping).offers(node, target)


__all__ = ["OPERATORS", "offers"]
