"""The machine that a plan is made for: what the cost model and the kernel packs need to know of it.

Detected values are good enough to choose by; ``autofusion calibrate`` replaces them by measured ones.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One machine. Bytes, seconds, flop/s (a multiply-add is two), for ONE core unless said otherwise.

    ``isa`` is ``avx512``, ``avx2``, ``neon`` or ``generic``; ``lanes`` is the number of float32 in a vector register.
    ``bandwidth_*`` are copy rates in bytes/s; ``bandwidth_memory`` is for all cores together.
    """

    isa: str
    lanes: int
    threads: int
    peak_flops: float
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    bandwidth_l2: float
    bandwidth_l3: float
    bandwidth_memory: float
    transcendentals: float
    """Vectorised exp-like evaluations a second."""
    flush_denormals: bool = False
    """Native code takes denormal floats for zero, operands and results: an option, not a property of the machine."""
