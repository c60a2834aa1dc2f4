"""Run-time estimates that offers carry: the slower of arithmetic and memory, over the threads that are worth using.

Small formulas on purpose: they rank kernels and bound the number of threads; the cost model prices fusions.
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


def roofline(target: Target, flops: float, nbytes: float, transcendentals: float = 0.0) -> Estimate:
    """Estimate for ``flops`` (at the FMA peak), memory traffic and exp-like evaluations, evenly divisible."""
    compute = flops / target.peak_flops + transcendentals / target.transcendentals
    alone = max(compute, nbytes / bandwidth(target, nbytes, 1))
    workers = max(1, min(target.threads, int(alone / WORTH_A_THREAD)))
    together = max(compute / workers, nbytes / bandwidth(target, nbytes, workers))
    return Estimate(together, workers)


def node_estimate(node: Node, target: Target, efficiency: float = 0.5) -> Estimate:
    """Estimate from the schema's work. Pointwise arithmetic has no multiply-add to fill: ``efficiency`` of the peak."""
    amount = work(node)
    return roofline(target, amount.flops / efficiency, amount.bytes_read + amount.bytes_written, amount.transcendentals)
