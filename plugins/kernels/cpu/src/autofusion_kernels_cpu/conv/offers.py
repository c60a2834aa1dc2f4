"""Offers for convolutions: which algorithms can run a node, and what each would cost."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Node
from autofusion.kernels import Offer, Refusal, Target
from autofusion_kernels_cpu.conv import direct, image, narrow, winograd
from autofusion_kernels_cpu.conv.problem import ConvProblem, conv_of


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """All algorithms that can run the node, on blocked tensors, and on a plain image if it has few channels."""
    problem = conv_of(node)
    if isinstance(problem, Refusal):
        return problem
    answers = [
        direct.offer(problem, target),
        _plain_image(problem, target),
        narrow.offer(problem, target),
        *(winograd.offer(problem, target, tile) for tile in winograd.TILES),
    ]
    return [answer for answer in answers if not isinstance(answer, Refusal)]


def _plain_image(problem: ConvProblem, target: Target) -> Offer | Refusal:
    """With staged lines where windows reach beyond the edges, as it is where they do not."""
    staged = image.offer(problem, target)
    return direct.offer_planar(problem, target) if isinstance(staged, Refusal) else staged
