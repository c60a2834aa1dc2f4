"""Run-time estimates that offers carry: the slower of arithmetic and memory, over the threads that are worth using.

Small formulas on purpose: they rank kernels and bound the number of threads; the cost model prices fusions, and adds
the launch of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

from autofusion.ir.graph import Node
from autofusion.ir.operators import work
from autofusion.kernels import Target

WORTH_A_THREAD = 4e-6
"""Below this much work a second core costs more in moved cache lines than it saves."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """``seconds`` with ``workers`` threads at work."""

    seconds: float
    workers: int


def bandwidth(target: Target, nbytes: float, threads: int) -> float:
    """Bytes a second that ``threads`` threads copy, for a working set of ``nbytes``."""
    if nbytes <= target.l2_bytes * threads:
        return target.bandwidth_l2 * threads
    if nbytes <= target.l3_bytes:
        return min(target.bandwidth_l3 * threads, max(target.bandwidth_l3, target.bandwidth_memory) * threads)
    return target.bandwidth_memory


def overlapped(arithmetic: float, traffic: float, exposed: float = 0.0) -> float:
    """Seconds of work whose arithmetic and memory traffic hide behind each other, but for a share of the shorter."""
    return max(arithmetic, traffic) + exposed * min(arithmetic, traffic)


def useful_threads(target: Target, alone: float, worth: float = WORTH_A_THREAD) -> int:
    """How many threads are worth using for work that takes one of them ``alone`` seconds, at ``worth`` for each."""
    return max(1, min(target.threads, int(alone / worth)))


def filled(count: int, lanes: int) -> float:
    """What whole vectors of ``lanes`` do more than ``count`` elements ask for, as a factor."""
    return -(-max(count, 1) // lanes) * lanes / max(count, 1)


def roofline(target: Target, flops: float, nbytes: float, transcendentals: float = 0.0) -> Estimate:
    """Estimate for ``flops`` (at the FMA peak), memory traffic and exp-like evaluations, evenly divisible."""
    compute = flops / target.peak_flops + transcendentals / target.transcendentals
    workers = useful_threads(target, overlapped(compute, nbytes / bandwidth(target, nbytes, 1)))
    return Estimate(overlapped(compute / workers, nbytes / bandwidth(target, nbytes, workers)), workers)


def node_estimate(node: Node, target: Target, efficiency: float = 0.5) -> Estimate:
    """Estimate from the schema's work. Pointwise arithmetic has no multiply-add to fill: ``efficiency`` of the peak."""
    amount = work(node)
    return roofline(target, amount.flops / efficiency, amount.bytes_read + amount.bytes_written, amount.transcendentals)
