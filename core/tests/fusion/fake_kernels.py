"""A kernel pack whose prices and refusals the test decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autofusion.cost.model import CostModel
from autofusion.ir.graph import FUSED, Node
from autofusion.kernels.contract import KernelPack, Offer, Operand
from autofusion.kernels.target import Target
from autofusion.kinds import CONV, POINTWISE, FusedKind
from autofusion.offers.ask import Offers
from autofusion.refusal import Refusal

TARGET = Target(
    isa="avx512",
    lanes=16,
    threads=2,
    peak_flops=200e9,
    l1_bytes=48 << 10,
    l2_bytes=1 << 20,
    l3_bytes=32 << 20,
    bandwidth_l2=100e9,
    bandwidth_l3=50e9,
    bandwidth_memory=50e9,
    transcendentals=3e9,
)

KINDS = (POINTWISE, CONV)

Answer = Callable[[Node], float | str]
"""Seconds, or the reason of a refusal."""


def _no_bind(*_: Any) -> Any:
    raise AssertionError("planning binds nothing")


def offers(*packs: KernelPack) -> Offers:
    return Offers(packs, TARGET, CostModel(TARGET))


class FakePack:
    """``ordinary`` and ``fused`` give the seconds of a node, or a reason to refuse it."""

    launch_seconds = 0.0
    blocks: Sequence[int] = ()

    def __init__(
        self,
        ordinary: Answer | float = 1.0,
        fused: Answer | float = 1.0,
        kinds: Sequence[FusedKind] = KINDS,
        *,
        name: str = "fake",
        is_reference: bool = False,
    ) -> None:
        self.name, self.version, self.kinds, self.is_reference = name, "0.9.0", kinds, is_reference
        self._ordinary, self._fused = ordinary, fused
        self.asked: list[Node] = []

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        self.asked.append(node)
        answer = self._fused if node.op == FUSED else self._ordinary
        seconds = answer(node) if callable(answer) else answer
        if isinstance(seconds, str):
            return Refusal(seconds)
        inputs = tuple(None if v is None else Operand() for v in node.inputs)
        return [Offer("fast", inputs, tuple(Operand() for _ in node.outputs), _no_bind, seconds=seconds)]

    def reorder(self, *_: Any) -> Offer | None:
        return None

    def assemble(self, *_: Any) -> None:
        return None


def body_ops(node: Node) -> list[str]:
    return [inner.op for inner in node.body.nodes]
