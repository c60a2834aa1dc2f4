"""Everything that compiling a graph needs, shared by a session and the bodies of its control-flow nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion.cost.model import CostModel
from autofusion.errors import KernelError, PluginError
from autofusion.fusion.kernel_switches import KernelSwitches
from autofusion.fusion.ledger import Ledger
from autofusion.fusion.optimise import optimise, prepare
from autofusion.ir.graph import Graph, Node
from autofusion.kernels.contract import BindContext, KernelPack, Offer, constant_view
from autofusion.kernels.target import Target
from autofusion.options import Options
from autofusion.refusal import Refusal
from autofusion.rules.rule import RulePack
from autofusion.runtime.guard import guarded

if TYPE_CHECKING:
    from autofusion.runtime.executor import Executor, Stage


@dataclass(frozen=True, slots=True)
class Body:
    """A control-flow body with the executor that runs it, and what preparing it decided."""

    graph: Graph
    executor: Executor
    ledger: Ledger


Observer = Callable[["Stage", Sequence[Any]], list[Any]]
"""Runs a stage in place of ``Stage.run``."""


class Observation:
    """Lets one tool at a time look at what else a run runs: tails and control-flow bodies."""

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self._turn = threading.Lock()

    @contextmanager
    def by(self, observer: Observer) -> Iterator[None]:
        """While it lasts, ``observer`` runs them, those that other threads come to as well."""
        with self._turn:
            self.observer = observer
            try:
                yield
            finally:
                self.observer = None


@dataclass(slots=True)
class Context:
    """``cache`` holds packed weights and the like for the life of the session; ``plan_limit`` bounds cached plans
    per graph.
    """

    rule_packs: Sequence[RulePack]
    kernel_packs: Sequence[KernelPack]
    target: Target
    cost_model: CostModel
    options: Options
    plan_limit: int = 8
    cache: dict[Any, Any] = field(default_factory=dict)
    bodies: dict[int, Body] = field(default_factory=dict)
    """Control-flow bodies by the id of their graph."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    kernel_switches: KernelSwitches = field(init=False)
    observation: Observation = field(default_factory=Observation)
    """Of tails and control-flow bodies as they run; copies of the context share it."""

    def __post_init__(self) -> None:
        self.kernel_packs = [guarded(pack) for pack in self.kernel_packs]
        self.kernel_switches = KernelSwitches(self.kernel_packs, self.options)

    def variant(self, **changes: Any) -> Context:
        """A context with some options changed, for the same model; packed weights are shared."""
        return replace(self, options=replace(self.options, **changes), bodies={}, lock=threading.RLock())

    @property
    def oracle(self) -> KernelPack:
        """The pack that runs operators by the book; raise PluginError if none is installed."""
        for pack in self.kernel_packs:
            if pack.oracle:
                return pack
        raise PluginError(
            "no reference kernel pack is installed, and constants cannot be folded; "
            "install autofusion-kernels-reference"
        )

    @property
    def bind_context(self) -> BindContext:
        """What kernels may use while they are bound; without scratch memory."""
        return BindContext(self.target, self.cache, reference=self.evaluate)

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        """Run one node on constant operands with the oracle pack."""
        offers = self.oracle.offer(node, self.target)
        if isinstance(offers, Refusal):
            raise KernelError(f"the reference pack cannot run {node.label} ({node.op}): {offers.reason}")
        views = [None if v is None else constant_view(v) for v in inputs]
        kernel = offers[0].bind(self.bind_context, views, [])
        results: Sequence[np.ndarray] = kernel(inputs)
        return results

    def prepare(self, graph: Graph) -> tuple[Graph, Ledger]:
        """The shape-independent rules, once for a graph."""
        return prepare(graph, self.rule_packs, self.options)

    def optimise(self, graph: Graph) -> tuple[Graph, Ledger]:
        """All rules, for a graph with static shapes."""
        return optimise(
            graph,
            self.rule_packs,
            self.kernel_packs,
            self.target,
            self.cost_model,
            self.options,
            self.kernel_switches,
        )

    def price(self, node: Node, offer: Offer, pack: KernelPack) -> float:
        """Seconds that the cost model expects of an offer."""
        return self.cost_model.price(node, offer, pack.launch_seconds).total
