"""Run a graph of any shapes: one specialised, fused, bound plan for each set of input types, cached with a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from autofusion.forks import renew_after_fork
from autofusion.fusion.ledger import Ledger
from autofusion.ir.graph import Graph
from autofusion.ir.specialise import specialise
from autofusion.ir.types import TensorType, Type, of_array
from autofusion.lowering.lower import lower
from autofusion.numerics import NotFinite, Numerics
from autofusion.offers.guard import KernelFailure
from autofusion.runtime.context import Context
from autofusion.runtime.control import ControlPack
from autofusion.runtime.runner import PlanRunner
from autofusion.runtime.split import Split, split

Key = tuple[Type | None, ...]
T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """One plan and what follows it: the rest of the graph, if some shapes are only known after this plan has run."""

    runner: PlanRunner
    ledger: Ledger
    graph: Graph
    """The specialised graph before fusion."""
    split: Split
    tail: Executor | None

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the plan, then the tail."""
        return self.join(self.runner.run(inputs))

    def join(self, results: list[Any]) -> list[Any]:
        """The whole graph's outputs from the head's."""
        if self.tail is None:
            return results
        late = self.tail.run([results[i] for i in self.split.crossing])
        return [late[i] if from_tail else results[i] for from_tail, i in self.split.outputs]


class Executor:
    """A prepared graph with its plans."""

    def __init__(self, graph: Graph, context: Context) -> None:
        self.graph = graph
        self._context = context
        self._stages: OrderedDict[Key, Stage] = OrderedDict()
        self._last: tuple[list[Any], Stage] | None = None
        """The stage that ran last, with the element types and shapes that it ran on."""
        self._exact: Executor | None = None
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """A lock that nobody holds; see ``forks``."""
        self._lock = threading.RLock()

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on the graph's inputs, in order."""
        return self.attempt(inputs, self._context.observation.observer or Stage.run)

    def attempt(
        self, inputs: Sequence[Any], act: Callable[[Stage, Sequence[Any]], T], *, replace_failing: bool = True
    ) -> T:
        """``act(stage, inputs)`` with the plan for these inputs: how every run is made, whatever else it looks at.

        Again from the start, with the plan without approximate kernels, if one of them met what is not finite; and
        with another kernel in the place of one that failed, unless ``replace_failing`` is False: it raises then.
        """
        while True:
            try:
                return act(self._stage_for(inputs), inputs)
            except NotFinite:
                return self._without_approximations().attempt(inputs, act, replace_failing=replace_failing)
            except KernelFailure as failure:
                if not replace_failing:
                    raise
                self._recover(failure)

    def _stage_for(self, inputs: Sequence[Any]) -> Stage:
        """The plan for these inputs: at once if they are like those of the run before."""
        given = [(x.dtype, x.shape) if isinstance(x, np.ndarray) else None for x in inputs]
        last = self._last
        if last is not None and last[0] == given:
            return last[1]
        stage = self.stage(self.key(inputs))
        self._last = (given, stage)
        return stage

    def _without_approximations(self) -> Executor:
        """The same graph, for runs in which an approximate kernel met what is not finite."""
        with self._lock:
            if self._exact is None:
                self._exact = Executor(self.graph, self._context.variant(numerics=Numerics.REASSOCIATED))
            return self._exact

    def _recover(self, failure: KernelFailure) -> None:
        """Do without the kernel that failed: every plan is made again without it when it is next needed."""
        failure.pack.quarantine(failure.kernel, str(failure))
        with self._lock:
            self._last = None
            self._stages.clear()

    def key(self, inputs: Sequence[Any]) -> Key:
        """The types of the inputs; a value that is not an array keeps its declared type."""
        return tuple(
            of_array(given) if isinstance(given, np.ndarray) else value.type
            for value, given in zip(self.graph.inputs, inputs, strict=True)
        )

    @property
    def stages(self) -> list[Stage]:
        """The plans made so far, least recently used first."""
        return list(self._stages.values())

    def stage(self, key: Key) -> Stage:
        """The plan for these input types, made if need be."""
        with self._lock:
            self._last = None  # or that one would no longer be the last that was used
            found = self._stages.get(key)
            if found is None:
                found = self._build(key)
                self._stages[key] = found
                while len(self._stages) > self._context.plan_limit:
                    self._stages.popitem(last=False)
            self._stages.move_to_end(key)
            return found

    def _build(self, key: Key) -> Stage:
        while True:
            try:
                return self._built(key)
            except KernelFailure as failure:
                failure.pack.quarantine(failure.kernel, str(failure))

    def _built(self, key: Key) -> Stage:
        context = self._context
        types = {v.name: t for v, t in zip(self.graph.inputs, key, strict=True) if t is not None}
        graph = specialise(self.graph, types, context.evaluate)
        parts = split(graph)
        offers = context.offers(ControlPack(context))
        fused, ledger = context.optimise(parts.head, offers)
        fused.sort()
        plan = lower(fused, offers)
        runner = PlanRunner(plan, context.bind_context)
        tail = None if parts.tail is None else Executor(parts.tail, context)
        return Stage(runner, ledger, graph, parts, tail)


def static_key(graph: Graph) -> Key | None:
    """The key of a graph whose declared input types are all static, otherwise None."""
    types = [v.type for v in graph.inputs]
    return tuple(types) if all(isinstance(t, TensorType) and t.is_static for t in types) else None
