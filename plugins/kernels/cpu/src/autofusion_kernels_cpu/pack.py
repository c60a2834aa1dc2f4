"""The kernel pack: which family of kernels answers for a node, and how bound kernels become one native program.

A family is a sub-package with `OPERATORS` (ordinary operators it runs), `KINDS` (fused kinds, with the version of
each that it implements) and `offers(node, target)`. The pack knows nothing else of them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from types import ModuleType

from autofusion.cost.target import Target
from autofusion.ir.graph import FUSED, Node
from autofusion.ir.types import TensorType
from autofusion.lowering.contract import BoundStep, Memory, Offer, Operand, Refused, Segment, storable
from autofusion_kernels_cpu.codegen.isa import host_isa, host_isas

FAMILIES = ("conv", "matmul", "attention", "pointwise", "reduction", "pooling", "resize", "movement", "recurrent")

Offers = Callable[[Node, Target], Sequence[Offer] | Refused]


def supports(target: Target) -> bool:
    """True if this machine has the target's instruction set and the generators know it."""
    return any(isa.name == target.isa for isa in host_isas())


@functools.cache
def families() -> tuple[ModuleType, ...]:
    """The family packages, imported on first use."""
    return tuple(importlib.import_module(f"autofusion_kernels_cpu.{name}") for name in FAMILIES)


class CpuPack:
    """Generated kernels for the host's vector units."""

    name = "cpu"
    version = version("autofusion-kernels-cpu")
    oracle = False
    launch_seconds = 1e-7
    """A step of the native interpreter costs 40 to 70 ns, its barrier included."""

    def __init__(self, target: Target) -> None:
        self.blocks: Sequence[int] = (host_isa(target.isa).lanes,)

    @functools.cached_property
    def kinds(self) -> Mapping[str, str]:
        """Fused kinds and the version of each that the families implement."""
        return {kind: version for family in families() for kind, version in family.KINDS.items()}

    @functools.cached_property
    def _operators(self) -> Mapping[str, tuple[Offers, ...]]:
        table: dict[str, tuple[Offers, ...]] = {}
        for family in families():
            for name in (*family.OPERATORS, *(f"{FUSED}:{kind}" for kind in family.KINDS)):
                table[name] = (*table.get(name, ()), family.offers)
        return table

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refused:
        """Offers of every family that knows the operator."""
        key = f"{FUSED}:{node.attrs['kind']}" if node.op == FUSED else node.op
        asked = self._operators.get(key, ())
        if not asked:
            what = f"fused kind '{node.attrs['kind']}'" if node.op == FUSED else f"operator '{node.op}'"
            return Refused(f"the pack has no kernel for {what}")
        if any(v is not None and not storable(v.type) for v in node.inputs) or not all(
            storable(v.type) for v in node.outputs
        ):
            return Refused("an operand or a result has no static shape")
        offers: list[Offer] = []
        reasons: list[str] = []
        for family in asked:
            answer = family(node, target)
            if isinstance(answer, Refused):
                reasons.append(answer.reason)
            else:
                offers += answer
        return offers or Refused("; ".join(dict.fromkeys(reasons)) or "no kernel fits its operands")

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """Copies between layouts, into borders and into slices."""
        from autofusion_kernels_cpu.reorder import reorder_offer

        return reorder_offer(type_, source, result, target)

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment:
        """One native program for all steps."""
        from autofusion_kernels_cpu.native.pool import pool
        from autofusion_kernels_cpu.native.program import Program

        return Program(pool(target.threads), [step.kernel for step in steps], memory)
