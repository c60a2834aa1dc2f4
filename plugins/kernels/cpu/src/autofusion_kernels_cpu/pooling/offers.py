"""Offers for the pooling operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.kernels import Layout, Numerics, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.pooling.bind import bind_blocked, bind_plain
from autofusion_kernels_cpu.pooling.problem import Pooling, pooling_of
from autofusion_kernels_cpu.pooling.schedule import blocked_estimate, plain_estimate
from autofusion_kernels_cpu.support import again, operands


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Pooling of float32 over one to three spatial axes, blocked or plain; maxima of 8-bit integers, blocked."""
    problem = pooling_of(node)
    if isinstance(problem, Refusal):
        return problem
    blocked = _blocked(problem, target)
    return [blocked, _plain(problem, target)] if problem.x.dtype == np.float32 else [blocked]


def _blocked(problem: Pooling, target: Target) -> Offer:
    layout, estimate = Layout(target.lanes), blocked_estimate(problem, target)
    return Offer(
        f"pool.{problem.kind}.blocked",
        operands(problem.node, {0: Operand(layout)}),
        (Operand(layout, bordered=True), *_absent(problem)),
        bind_blocked(problem, estimate.workers),
        seconds=estimate.seconds,
        numerics=_numerics(problem),
        resize=partial(again, partial(pooling_of, problem.node), _blocked, target),
    )


def _plain(problem: Pooling, target: Target) -> Offer:
    estimate = plain_estimate(problem, target)
    return Offer(
        f"pool.{problem.kind}.plain",
        operands(problem.node, {}),
        (Operand(), *_absent(problem)),
        bind_plain(problem, estimate.workers),
        seconds=estimate.seconds,
        numerics=_numerics(problem),
        resize=partial(again, partial(pooling_of, problem.node), _plain, target),
    )


def _absent(problem: Pooling) -> tuple[Operand, ...]:
    """Of the results that nobody reads."""
    return tuple(Operand() for _ in problem.node.outputs[1:])


def _numerics(problem: Pooling) -> Numerics:
    return Numerics.EXACT if problem.kind == "max" else Numerics.REASSOCIATED
