"""A plan: the steps that run a graph for given input shapes, as data. The runtime binds and runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from autofusion.ir.graph import Graph, Node
from autofusion.ir.types import Type
from autofusion.kernels.contract import KernelPack, Offer, TensorView

if TYPE_CHECKING:
    from autofusion.offers.ask import PackRefusal


@dataclass(slots=True, eq=False)
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


@dataclass(frozen=True, slots=True)
class Border:
    """The zero border of a buffer at byte ``offset`` of the arena, whose memory has ``shape``; see ``Root``."""

    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    widths: tuple[int, ...]
    """Low ends of the spatial axes (from axis 2 of ``shape``), then high ends."""

    def clear(self, memory: np.ndarray) -> None:
        """Write the zeros into the arena's bytes."""
        array: np.ndarray = np.ndarray(self.shape, self.dtype, memory, self.offset)
        spatial = len(self.widths) // 2
        for axis, (low, high) in enumerate(zip(self.widths[:spatial], self.widths[spatial:], strict=True), 2):
            lead = (slice(None),) * axis
            if low:
                array[(*lead, slice(low))] = 0
            if high:
                array[(*lead, slice(self.shape[axis] - high, None))] = 0


OwnGraph = Callable[[], tuple[Graph, Mapping[Node, Node]]]
"""Makes the graph of a plan whose nodes have been given other sizes since, and says which node stands for which."""


@dataclass(slots=True, eq=False)
class Plan:
    """``external`` are the types of the caller's arrays by slot: the static inputs first, then the outputs.

    Plans of several sizes may be lowered from one graph, which is given these sizes one after the other; then
    ``own_graph`` makes the graph that a plan is of, once somebody looks at it.
    """

    lowered: Graph
    lowered_steps: list[Step]
    external: list[Type]
    input_slots: list[int]
    """Slot of each graph input, or -1 if it is passed as an object."""
    outputs: list[OutputSpec]
    arena_bytes: int
    peak_bytes: int
    """Largest number of bytes alive at once, before fragmentation and borders that are kept."""
    borders: tuple[Border, ...] = ()
    """Zeros that the arena must have before a run, and has after it."""
    lowered_views: list[tuple[Node, str]] = field(default_factory=list)
    own_graph: OwnGraph | None = None

    @property
    def graph(self) -> Graph:
        """The graph, with the sizes of this plan."""
        self.settle()
        return self.lowered

    @property
    def steps(self) -> list[Step]:
        """The steps in order."""
        self.settle()
        return self.lowered_steps

    @property
    def views(self) -> list[tuple[Node, str]]:
        """Nodes that cost nothing: (node, how)."""
        self.settle()
        return self.lowered_views

    def settle(self) -> None:
        """Let the graph and the steps have the sizes of this plan, and keep them."""
        if self.own_graph is None:
            return
        graph, nodes = self.own_graph()
        for step in self.lowered_steps:
            step.node = nodes.get(step.node, step.node)
        self.lowered_views = [(nodes.get(node, node), how) for node, how in self.lowered_views]
        self.lowered, self.own_graph = graph, None
