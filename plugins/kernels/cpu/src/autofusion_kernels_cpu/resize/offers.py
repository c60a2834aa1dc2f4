"""Offers for Resize."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.kernels import Layout, Numerics, Offer, Operand, Refusal, Target
from autofusion_kernels_cpu.resize.bind import bind_blocked, bind_plain
from autofusion_kernels_cpu.resize.problem import Resizing, resizing_of
from autofusion_kernels_cpu.resize.schedule import blocked_estimate, plain_estimate
from autofusion_kernels_cpu.support import again, operands


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Resize of the last one to three axes: float32, or any four-byte elements with mode nearest."""
    problem = resizing_of(node)
    if isinstance(problem, Refusal):
        return problem
    blocked = _blocked(problem, target)
    return [*(() if blocked is None else (blocked,)), _plain(problem, target)]


def _blocked(problem: Resizing, target: Target) -> Offer | None:
    if not 3 <= len(problem.taps) <= 5 or problem.x.dtype != np.float32 or any(i < 2 for i in problem.changed):
        return None
    layout, estimate = Layout(target.lanes), blocked_estimate(problem, target)
    return Offer(
        "resize.blocked",
        operands(problem.node, {0: Operand(layout)}),
        (Operand(layout, bordered=True),),
        bind_blocked(problem, estimate.workers),
        seconds=estimate.seconds,
        numerics=_numerics(problem),
        resize=partial(again, partial(resizing_of, problem.node), _blocked, target),
    )


def _plain(problem: Resizing, target: Target) -> Offer:
    estimate = plain_estimate(problem, target)
    return Offer(
        "resize.plain",
        operands(problem.node, {}),
        (Operand(),),
        bind_plain(problem, estimate.workers),
        seconds=estimate.seconds,
        numerics=_numerics(problem),
        resize=partial(again, partial(resizing_of, problem.node), _plain, target),
    )


def _numerics(problem: Resizing) -> Numerics:
    return Numerics.REASSOCIATED if problem.weighted else Numerics.EXACT
