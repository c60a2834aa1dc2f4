"""The kernel pack: which family of kernels answers for a node, and how bound kernels become one native program.

A family is a sub-package with `OPERATORS` (ordinary operators it runs) and a module `offers` with
`offers(node, target)`, which is imported when a model has such an operator; the fused kinds that it implements are
stated here, so that they can be listed without importing any generator. The pack knows nothing else of them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from autofusion.ir.graph import FUSED, Node
from autofusion.ir.types import TensorType
from autofusion.kernels import (
    ATTENTION,
    CONV,
    INTEGER_CONV,
    INTEGER_MATMUL,
    LAYER_NORM,
    MATMUL,
    POINTWISE,
    REDUCTION,
    SOFTMAX,
    BoundStep,
    CacheFolder,
    FusedKind,
    Memory,
    Offer,
    Operand,
    Refusal,
    Saved,
    Segment,
    Storage,
    Target,
    instruction_sets,
    storable,
)
from autofusion_kernels_cpu.codegen.isa import ISAS

if TYPE_CHECKING:
    from autofusion_kernels_cpu.native.jit import Jit

FAMILIES: Mapping[str, tuple[FusedKind, ...]] = {
    "conv": (CONV,),
    "matmul": (MATMUL,),
    "integer": (INTEGER_MATMUL,),
    "integer_conv": (INTEGER_CONV,),
    "attention": (ATTENTION,),
    "pointwise": (POINTWISE,),
    "reduction": (REDUCTION, SOFTMAX, LAYER_NORM),
    "pooling": (),
    "resize": (),
    "sampling": (),
    "indexed": (),
    "movement": (),
    "recurrent": (),
}
"""Family -> fused kinds that it implements."""

Offers = Callable[[Node, Target], Sequence[Offer] | Refusal]


def supports(target: Target) -> bool:
    """True if this machine has the target's instruction set and the generators know it. LLVM is not asked yet."""
    return target.isa in ISAS and target.isa in instruction_sets()


@functools.cache
def operators() -> Mapping[str, tuple[str, ...]]:
    """The families that run an operator, or `FUSED:kind`."""
    table: dict[str, tuple[str, ...]] = {}
    for label, kinds in FAMILIES.items():
        family = importlib.import_module(f"autofusion_kernels_cpu.{label}")
        for name in (*family.OPERATORS, *(f"{FUSED}:{kind.name}" for kind in kinds)):
            table[name] = (*table.get(name, ()), label)
    return table


@functools.cache
def asked(key: str) -> tuple[Offers, ...]:
    """What makes the offers for an operator, or `FUSED:kind`; imported on first use."""
    labels = operators().get(key, ())
    return tuple(importlib.import_module(f"autofusion_kernels_cpu.{label}.offers").offers for label in labels)


class CpuPack:
    """Generated kernels for the host's vector units."""

    name = "cpu"
    version = version("autofusion-kernels-cpu")
    is_reference = False
    kinds: Sequence[FusedKind] = tuple(kind for kinds in FAMILIES.values() for kind in kinds)
    launch_seconds = 1e-7
    """A step of the native interpreter costs 40 to 70 ns, its barrier included."""

    def __init__(self, target: Target) -> None:
        self.blocks: Sequence[int] = (ISAS[target.isa].lanes,)

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """Offers of every family that knows the operator."""
        key = f"{FUSED}:{node.attrs['kind']}" if node.op == FUSED else node.op
        families = asked(key)
        if not families:
            what = f"fused kind '{node.attrs['kind']}'" if node.op == FUSED else f"operator '{node.op}'"
            return Refusal(f"the pack has no kernel for {what}")
        if any(v is not None and not storable(v.type) for v in node.inputs) or not all(
            storable(v.type) for v in node.outputs
        ):
            return Refusal("an operand or a result has no static shape")
        offers: list[Offer] = []
        reasons: list[str] = []
        for family in families:
            answer = family(node, target)
            if isinstance(answer, Refusal):
                reasons.append(answer.reason)
            else:
                offers += answer
        return offers or Refusal("; ".join(dict.fromkeys(reasons)) or "no kernel fits its operands")

    def cache_folders(self) -> Sequence[CacheFolder]:
        """The folders of the cache of compiled kernels."""
        return _jit().cache.usage()

    def clean_cache(self) -> None:
        """Remove all kernels from the first folder."""
        _jit().cache.clean()

    def share_cache(self) -> None:
        """Let every user read the first folder."""
        _jit().cache.share()

    def kernel_counts(self) -> tuple[int, int]:
        """How many kernels this process has compiled, and how many it has found in the cache."""
        counters = _jit().counters
        return counters.compiled, counters.cached

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """Copies between layouts, into borders and into slices."""
        from autofusion_kernels_cpu.reorder import reorder_offer

        return reorder_offer(type_, source, result, target)

    def save_segments(self, segments: Sequence[Segment], storage: Storage) -> Saved:
        """Programs as data and one image of code; see ``restore_segments`` of the package."""
        from autofusion_kernels_cpu.native.saved import save

        return save(segments, storage)

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment:
        """One native program for all steps."""
        from autofusion_kernels_cpu.native.pool import pool
        from autofusion_kernels_cpu.native.program import Program

        kernels = [step.kernel for step in steps]
        return Program(pool(target.threads), kernels, memory, target.flush_denormals)


def _jit() -> Jit:
    from autofusion_kernels_cpu.native.jit import jit

    return jit()
