"""Run a graph of any shapes: one specialised, fused, bound plan for each set of input types, cached with a bound."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from autofusion.forks import forks_wait, renew_after_fork
from autofusion.fusion.ledger import Ledger
from autofusion.ir.collector import collector_paused
from autofusion.ir.graph import Graph
from autofusion.ir.mapped import reading
from autofusion.ir.retype import Trace
from autofusion.ir.types import TensorType, of_array
from autofusion.lowering.lower import lower
from autofusion.numerics import NotFinite, Numerics
from autofusion.offers.guard import KernelFailure
from autofusion.runtime.arena import Arena, Arenas
from autofusion.runtime.classes import Key
from autofusion.runtime.context import Context
from autofusion.runtime.control import ControlPack
from autofusion.runtime.decisions import Decider
from autofusion.runtime.plans import DROPPED, LOG, Turns, touch
from autofusion.runtime.repeat import Loop
from autofusion.runtime.runner import NODE_BYTES, PlanRunner
from autofusion.runtime.split import Split, split, whole

T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """One plan and what follows it: the rest of the graph, if some shapes are only known after this plan has run."""

    runner: PlanRunner
    ledger: Ledger
    specialised: Callable[[], Graph]
    split: Split
    tail: Executor | None
    used: int = 0
    """When it was last used, or ``plans.DROPPED``."""

    @property
    def graph(self) -> Graph:
        """The specialised graph before fusion."""
        return self.specialised()

    @property
    def nbytes(self) -> int:
        """Estimated bytes of the plan; activations are not counted."""
        return self.runner.nbytes + NODE_BYTES * len(self.split.head)

    @property
    def arena(self) -> Arena:
        """Where the plan's activations are."""
        return self.runner.arena

    def release(self) -> None:
        """Let go of the tail's plans."""
        if self.tail is not None:
            self.tail.release()

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
    """A prepared graph with its plans, which run in ``arenas``."""

    def __init__(self, graph: Graph, context: Context, arenas: Arenas | None = None) -> None:
        self.graph = graph
        self._context = context
        self._arenas = arenas or Arenas()
        self._stages: dict[Key, Stage] = {}
        self._last: tuple[list[Any], Stage] | None = None
        """The stage that ran last, with the element types and shapes that it ran on."""
        self._exact: Executor | None = None
        self._decider = Decider(graph, context, lambda key: split(self._specialised(key)).head)
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """Locks that nobody holds; see ``forks``."""
        self._lock = threading.RLock()
        self._turns = Turns()

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on the graph's inputs, in order."""
        return self.attempt(inputs, self._context.observation.observer or Stage.run)

    def repeat(self, inputs: Sequence[Any], loop: Loop) -> list[Any] | None:
        """All runs of ``loop``, the first on ``inputs``; None if this graph has to be run from Python each time."""
        return None if self._context.observation.observer else self.attempt(inputs, loop.run)

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
                LOG.info(
                    "run of graph '%s' again without approximate kernels: one met a value that is not finite",
                    self.graph.name,
                )
                self._context.plans.counters.fallbacks += 1
                return self._without_approximations().attempt(inputs, act, replace_failing=replace_failing)
            except KernelFailure as failure:
                if not replace_failing:
                    raise
                self._recover(failure)

    def _without_approximations(self) -> Executor:
        """The same graph, for runs in which an approximate kernel met what is not finite."""
        with self._lock:
            if self._exact is None:
                context = self._context.variant(numerics=Numerics.REASSOCIATED)
                self._exact = Executor(self.graph, context, self._arenas)
            return self._exact

    def _recover(self, failure: KernelFailure) -> None:
        """Do without the kernel that failed: every plan is made again without it when it is next needed."""
        failure.pack.quarantine(failure.kernel, str(failure))
        self._context.plans.counters.fallbacks += 1
        self._decider.forget()
        self.release()

    def release(self) -> None:
        """Let go of every plan."""
        self._context.plans.forget(self._stages)
        if self._exact is not None:
            self._exact.release()

    def close(self) -> None:
        """Let go of every plan and of the memory that they run in."""
        self.release()
        self._last = self._exact = None
        self._arenas = Arenas()
        self._decider.forget()

    def key(self, inputs: Sequence[Any]) -> Key:
        """The types of the inputs; a value that is not an array keeps its declared type."""
        return tuple(
            of_array(given) if isinstance(given, np.ndarray) else value.type
            for value, given in zip(self.graph.inputs, inputs, strict=True)
        )

    def _stage_for(self, inputs: Sequence[Any]) -> Stage:
        """The plan for these inputs: at once if they are like those of the run before."""
        given = [(x.dtype, x.shape) if isinstance(x, np.ndarray) else None for x in inputs]
        last = self._last
        if last is not None and last[0] == given and last[1].used != DROPPED:
            self._context.plans.counters.hits += 1
            touch(last[1])
            return last[1]
        stage = self.stage(self.key(inputs))
        self._last = (given, stage)
        return stage

    @property
    def stages(self) -> list[Stage]:
        """The plans kept, least recently used first."""
        return sorted(self._stages.values(), key=lambda stage: stage.used)

    def stage(self, key: Key) -> Stage:
        """The plan for these input types, made if need be: once, while runs of other shapes go on."""
        found = self._stages.get(key)
        if found is None:
            found = self._plan(key)
        else:
            self._context.plans.counters.hits += 1
        touch(found)
        return found

    def _plan(self, key: Key) -> Stage:
        plans = self._context.plans
        try:
            while not self._turns.take(key, lambda: key in self._stages):
                found = self._stages.get(key)
                if found is not None:
                    return found
            with forks_wait(), plans.planning, collector_paused(), reading(self._context.files):
                start = time.perf_counter()
                stage = self._build(key)
                taken = time.perf_counter() - start
                plans.counters.plans += 1
                plans.counters.seconds += taken
            plans.add(self._stages, key, stage)
        finally:
            self._turns.done(key)
        LOG.info("new plan of graph '%s' for %s: %.1f ms", self.graph.name, _shown(key), 1e3 * taken)
        return stage

    def _build(self, key: Key) -> Stage:
        while True:
            try:
                return self._built(key)
            except KernelFailure as failure:
                failure.pack.quarantine(failure.kernel, str(failure))
                self._decider.forget()

    def _built(self, key: Key) -> Stage:
        context = self._context
        offers = context.offers(ControlPack(context))
        specialised = functools.cache(lambda: self._specialised(key))
        decided = self._decider.resize(key, offers)
        if decided is not None:
            parts = whole(decided.graph)
        else:
            trace = Trace()
            parts = split(self._specialised(key, trace))
            repeatable = parts.tail is None and not trace.problem
            decided = self._decider.decide(key, parts.head, offers, trace if repeatable else None)
        plan = lower(decided.graph, offers, decided.choices, decided.own_graph)
        runner = PlanRunner(plan, context.bind_context, self._arenas.take(plan.arena_bytes))
        tail = None if parts.tail is None else Executor(parts.tail, context, self._arenas)
        context.plans.counters.replays += decided.replayed
        return Stage(runner, decided.ledger, specialised, parts, tail)

    def _specialised(self, key: Key, trace: Trace | None = None) -> Graph:
        types = {v.name: t for v, t in zip(self.graph.inputs, key, strict=True) if t is not None}
        return self._context.specialise(self.graph, types, trace)


def _shown(key: Key) -> str:
    return ", ".join(map(str, key))


def static_key(graph: Graph) -> Key | None:
    """The key of a graph whose declared input types are all static, otherwise None."""
    types = [v.type for v in graph.inputs]
    return tuple(types) if all(isinstance(t, TensorType) and t.is_static for t in types) else None
