"""Everything that compiling a graph needs, shared by a session and the bodies of its control-flow nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion.cost.model import CostModel
from autofusion.forks import RenewedLock
from autofusion.fusion.ledger import Ledger
from autofusion.fusion.optimise import optimise, prepare
from autofusion.fusion.recipe import Recipe
from autofusion.ir.graph import Graph, Node
from autofusion.ir.mapped import MappedFile
from autofusion.ir.retype import Trace
from autofusion.ir.shared import share_constants
from autofusion.ir.specialise import specialise
from autofusion.ir.types import Type
from autofusion.kernels.contract import BindContext, KernelPack
from autofusion.kernels.evaluation import reference_pack, run_by_reference
from autofusion.kernels.target import Target
from autofusion.offers.ask import Offers
from autofusion.offers.guard import guarded
from autofusion.offers.switches import KernelSwitches
from autofusion.options import Options
from autofusion.rules.level import Level
from autofusion.rules.rule import RulePack
from autofusion.runtime.plans import Plans

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
        self._turn = RenewedLock()

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
    """``cache`` holds packed weights and the like for the life of the session; ``plans`` are all plans of it."""

    rule_packs: Sequence[RulePack]
    kernel_packs: Sequence[KernelPack]
    target: Target
    cost_model: CostModel
    options: Options
    plans: Plans = field(default_factory=lambda: Plans.within(Options()))
    cache: dict[Any, Any] = field(default_factory=dict)
    bodies: dict[int, Body] = field(default_factory=dict)
    """Control-flow bodies by the id of their graph."""
    lock: RenewedLock = field(default_factory=RenewedLock)
    kernel_switches: KernelSwitches = field(init=False)
    observation: Observation = field(default_factory=Observation)
    """Of tails and control-flow bodies as they run; copies of the context share it."""
    files: Sequence[MappedFile] = ()
    """Where weights are mapped from."""

    def __post_init__(self) -> None:
        self.kernel_packs = [guarded(pack) for pack in self.kernel_packs]
        self.kernel_switches = KernelSwitches(self.kernel_packs, self.options)

    def variant(self, **changes: Any) -> Context:
        """A context with some options changed, for the same model; packed weights and ``plans`` are shared."""
        return replace(self, options=replace(self.options, **changes), bodies={}, lock=RenewedLock())

    @property
    def bind_context(self) -> BindContext:
        """What kernels may use while they are bound; without scratch memory."""
        return BindContext(self.target, self.cache, reference=self.evaluate)

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        """Run one node on constant operands by the reference kernels; raise PluginError if none are installed."""
        return run_by_reference(reference_pack(self.kernel_packs), node, inputs, self.bind_context)

    def specialise(self, graph: Graph, input_types: Mapping[str, Type], trace: Trace | None = None) -> Graph:
        """A copy of ``graph`` for these input types; what the rules want to see unfolded is, unless none is to run."""
        rules = () if self.options.level is Level.OFF else self.rule_packs
        unfolded = frozenset[str]().union(*(r.unfolded for r in rules))
        return specialise(graph, input_types, self.evaluate, unfolded, trace)

    def offers(self, *further: KernelPack) -> Offers:
        """For one graph: what the kernel packs, and ``further`` ones, offer."""
        return Offers([*self.kernel_packs, *further], self.target, self.cost_model, self.kernel_switches)

    def prepare(self, graph: Graph) -> tuple[Graph, Ledger]:
        """The shape-independent rules, once for a graph."""
        prepared, ledger = prepare(graph, self.rule_packs, self.options)
        share_constants(prepared, graph)
        return prepared, ledger

    def optimise(self, graph: Graph, offers: Offers, recipe: Recipe | None = None) -> tuple[Graph, Ledger]:
        """All rules, for a graph with static shapes; ``recipe`` takes down what was applied."""
        return optimise(graph, self.rule_packs, offers, self.options, recipe)
