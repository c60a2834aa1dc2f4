"""What running a node costs: a roofline over its work and working set, the pack's own estimate, or a measurement.

Measured beats estimated beats modelled. The model is coarse on purpose: it has to rank "two steps with a tensor in
between" against "one step without", and what decides that is traffic by cache level, launches, and whether the work is
large enough for several threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autofusion.cost.signature import signature
from autofusion.ir import operators
from autofusion.ir.graph import FUSED, Node
from autofusion.ir.operators import OpClass, Work
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import Offer
from autofusion.kernels.target import Target

PARALLEL_SECONDS = 10e-6
"""Work of this length on one thread gains half of what more threads could give; shorter work gains little."""
CONTRACTION_EFFICIENCY = 0.85
"""Share of peak that good contraction kernels reach on average (tile remainders, short reductions)."""
POINTWISE_EFFICIENCY = 0.25
"""Share of peak (which counts fused multiply-adds on all units) of other arithmetic."""
SCATTER_SLOWDOWN = 3.0
"""Movement that permutes or gathers runs at a fraction of a copy's rate: its accesses are not sequential."""
REFERENCE_SLOWDOWN = 10.0
"""Kernels that are reference kernels, against tuned ones; they also use one thread."""
CACHE_SHARE = 0.75
"""Share of a cache that a working set can fill before it starts to miss."""

_SCATTERED = frozenset({"Transpose", "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Resize"})


@dataclass(frozen=True, slots=True)
class Price:
    """Predicted seconds of one run, and where they go.

    ``compute``, ``transcendental`` and ``memory`` are for one thread; arithmetic and memory traffic overlap, so the
    longer of the two counts. ``speedup`` is what the threads make of it. ``source`` is ``model``, ``kernel`` or
    ``measured``; for the latter two, ``total`` does not follow from the parts.
    """

    total: float
    launch: float = 0.0
    compute: float = 0.0
    transcendental: float = 0.0
    memory: float = 0.0
    speedup: float = 1.0
    level: str = ""
    source: str = "model"


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices nodes for ``target``. ``measured`` maps (node signature, kernel name) to seconds, launch included."""

    target: Target
    measured: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def price(
        self, node: Node, offer: Offer | None = None, launch_seconds: float = 0.0, *, is_reference: bool = False
    ) -> Price:
        """The price of ``node`` as ``offer`` runs it, or as a good kernel would if there is no offer.

        ``launch_seconds`` is what the pack pays to start a step. ``is_reference``: by a reference kernel.
        """
        if offer is not None and self.measured:
            seconds = self.measured.get((signature(node), offer.kernel))
            if seconds is not None:
                return Price(seconds, source="measured")
        if offer is not None and offer.seconds is not None:
            return Price(offer.seconds + launch_seconds, launch_seconds, source="kernel")
        return self._model(node, launch_seconds, is_reference)

    def _model(self, node: Node, launch: float, is_reference: bool) -> Price:
        if is_free(node):
            return Price(0.0)
        if not is_static(node):
            return Price(launch, launch)
        target, work = self.target, operators.work(node)
        bandwidth, level = self._bandwidth(work.bytes_read + work.bytes_written)
        compute = _arithmetic(node, target)
        transcendental = work.transcendentals / target.transcendentals
        memory = _traffic(node, work) / bandwidth
        alone = max(compute + transcendental, memory)
        if is_reference:
            return Price(launch + REFERENCE_SLOWDOWN * alone, launch, compute, transcendental, memory, 1.0, level)
        speedup = 1 + (target.threads - 1) * alone / (alone + PARALLEL_SECONDS)
        if level == "memory":
            speedup = min(speedup, max(1.0, target.bandwidth_memory / bandwidth))
        return Price(launch + alone / speedup, launch, compute, transcendental, memory, speedup, level)

    def _bandwidth(self, working_set: float) -> tuple[float, str]:
        """Bytes/s of one thread for data that fills so many bytes, and the level that they come from."""
        target = self.target
        if working_set <= CACHE_SHARE * target.l2_bytes * target.threads:
            return target.bandwidth_l2, "l2"
        if working_set <= CACHE_SHARE * target.l3_bytes:
            return target.bandwidth_l3, "l3"
        return min(target.bandwidth_memory, target.bandwidth_l3), "memory"


def is_free(node: Node) -> bool:
    """True if the result of ``node`` is its operand's memory under another name."""
    return node.op == "Constant" or operators.is_view(node.op)


def is_static(node: Node) -> bool:
    """True if every operand and result has a static tensor type: only then can work be counted."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    return all(isinstance(v.type, TensorType) and v.type.is_static for v in values)


def _arithmetic(node: Node, target: Target) -> float:
    """Seconds of arithmetic on one thread: contractions reach most of the peak, all else a part of it."""
    if node.op == FUSED:
        return sum(_arithmetic(inner, target) for inner in node.body.nodes)
    contraction = operators.op_class(node) is OpClass.CONTRACTION
    efficiency = CONTRACTION_EFFICIENCY if contraction else POINTWISE_EFFICIENCY
    return operators.work(node).flops / (efficiency * target.peak_flops)


def _traffic(node: Node, work: Work) -> float:
    """Bytes to move, weighted by how sequential the accesses are."""
    traffic = work.bytes_read + work.bytes_written
    return traffic * SCATTER_SLOWDOWN if node.op in _SCATTERED else traffic
