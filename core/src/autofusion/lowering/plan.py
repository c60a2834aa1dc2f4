"""A plan: the steps that run a graph for given input shapes, as data. The runtime binds and runs it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autofusion.ir.graph import Graph, Node
from autofusion.ir.types import Type
from autofusion.kernels.contract import KernelPack, Offer, TensorView
from autofusion.offers.ask import PackRefusal


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel run. ``node`` is the graph's node, or a stand-in ``Reorder`` node that copies between layouts.

    ``inputs`` holds None for an absent operand and for one that is not a static tensor; ``objects`` numbers the
    latter (a sequence, a tensor of run-time shape) by value name. ``outputs`` is empty for results of run-time
    shape: these are returned by the kernel and filed under ``results``.
    """

    node: Node
    pack: KernelPack
    offer: Offer
    inputs: tuple[TensorView | None, ...]
    outputs: tuple[TensorView, ...]
    objects: tuple[tuple[int, str], ...] = ()
    results: tuple[str, ...] = ()
    scratch: TensorView | None = None
    losers: tuple[tuple[str, float], ...] = ()
    refusals: tuple[PackRefusal, ...] = ()
    seconds: float = 0.0

    @property
    def is_reorder(self) -> bool:
        """True for a layout change that lowering added."""
        return self.node.op == REORDER

    @property
    def kernel(self) -> str:
        """``pack.kernel`` as reports show it."""
        return f"{self.pack.name}:{self.offer.kernel}"


REORDER = "Reorder"


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """Where a graph output comes from: an external ``slot``, the ``constant`` itself, or a result of run-time shape."""

    name: str
    type: Type | None
    slot: int = -1
    constant: np.ndarray | None = None
    result: str = ""


@dataclass(slots=True)
class Plan:
    """``external`` are the types of the caller's arrays by slot: the static inputs first, then the outputs."""

    graph: Graph
    steps: list[Step]
    external: list[Type]
    input_slots: list[int]
    """Slot of each graph input, or -1 if it is passed as an object."""
    outputs: list[OutputSpec]
    arena_bytes: int
    peak_bytes: int
    """Largest number of bytes alive at once, before fragmentation and borders that are kept."""
    views: list[tuple[Node, str]] = field(default_factory=list)
    """Nodes that cost nothing: (node, how)."""
