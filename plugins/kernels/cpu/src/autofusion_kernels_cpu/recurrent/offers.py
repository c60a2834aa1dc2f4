"""Offers for the recurrent operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from autofusion.ir.graph import Node
from autofusion.kernels import Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.recurrent.bind import bind
from autofusion_kernels_cpu.recurrent.problem import layer_of
from autofusion_kernels_cpu.recurrent.schedule import seconds
from autofusion_kernels_cpu.support import anew, operands


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """LSTM, GRU and RNN of float32 with constant weights."""
    layer = layer_of(node, target.lanes)
    if isinstance(layer, Refusal):
        return layer
    return [
        Offer(
            f"recurrent.{node.op.lower()}",
            operands(node, {}),
            tuple(Operand() for _ in node.outputs),
            partial(bind, layer),
            seconds=seconds(layer, target),
            scratch=layer.scratch["end"],
            resize=partial(anew, offers, node, target),
        )
    ]
