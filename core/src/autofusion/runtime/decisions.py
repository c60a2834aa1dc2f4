"""What is decided for a graph and a class of input sizes: made once, for the representative, and followed by the rest.

A shape gets decisions of its own where those of its class do not hold for it: another branch of an If is taken, a dim
is 1 or 0, a rule does not find or allow what it rewrote, or the representative is not a shape that the model takes. Its
ledger says so.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autofusion.errors import AutofusionError
from autofusion.fusion.ledger import Ledger
from autofusion.fusion.recipe import Recipe
from autofusion.fusion.replay import Changed, Outline, difference, follow, outline
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.graph import Graph, Node
from autofusion.ir.retype import Trace
from autofusion.ir.types import Type
from autofusion.lowering.plan import OwnGraph
from autofusion.lowering.recall import Chosen, choose, remember
from autofusion.lowering.select import Choice
from autofusion.offers.ask import Offers
from autofusion.offers.guard import KernelFailure
from autofusion.runtime.classes import Key, representative
from autofusion.runtime.context import Context
from autofusion.runtime.template import Template

KEPT = 512
"""Decisions that are kept for one graph, each some kilobytes; others are made again."""

TEMPLATES = 32
"""Graphs of classes that are kept to be given other sizes; with more classes in use, some are made again."""

Specialised = Callable[[Key], Graph]
"""The part of a graph that is planned first, specialised for input types."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What was applied to a graph of this outline, which kernels were chosen, and why."""

    outline: Outline
    recipe: Recipe
    ledger: Ledger
    choices: Mapping[str, Chosen]


@dataclass(frozen=True, slots=True)
class Decided:
    """A fused graph with its kernels, ready to be lowered; ``replayed`` if its class decided."""

    graph: Graph
    ledger: Ledger
    choices: Mapping[Node, Choice]
    replayed: bool
    own_graph: OwnGraph | None = None
    """See ``lowering.plan.Plan``."""


class Decider:
    """Decides for one graph. Not safe to call from several threads."""

    def __init__(self, graph: Graph, context: Context, specialised: Specialised) -> None:
        self._graph, self._context, self._specialised = graph, context, specialised
        self._switches = Switches(context.rule_packs, context.options)
        self._known: OrderedDict[Key, Decisions | str] = OrderedDict()
        """Input types -> what was decided for them, or why nothing could be."""
        self._templates: OrderedDict[Key, Template] = OrderedDict()
        """Input types that stand for a class -> its graph, once one of its sizes has been planned."""

    def forget(self) -> None:
        """Decide everything again: other kernels are to be had."""
        self._known.clear()
        self._templates.clear()

    def resize(self, key: Key, offers: Offers) -> Decided | None:
        """What ``decide`` says, from the graph of the class with other sizes; None where that takes more."""
        standing = representative(self._graph, key)
        template, known = self._templates.get(standing), self._known.get(standing)
        if template is None or template.problem or not isinstance(known, Decisions):
            return None
        types = self._named(key)
        try:
            template.resize(types)
            choices = template.choose(offers, known.choices)
        except AutofusionError:
            return None
        ledger = self._taken_over(known, standing, key)
        return Decided(template.graph, ledger, choices, replayed=True, own_graph=template.own_graph(types))

    def _named(self, key: Key) -> dict[str, Type]:
        return {v.name: t for v, t in zip(self._graph.inputs, key, strict=True) if t is not None}

    def decide(self, key: Key, head: Graph, offers: Offers, trace: Trace | None = None) -> Decided:
        """Fuse ``head``, the graph specialised for ``key``, and choose its kernels. Raises KernelError.

        With ``trace``, ``head`` is given other sizes later: nobody else may keep it.
        """
        standing = representative(self._graph, key)
        if self._context.options.memory_budget is not None:
            standing = key  # what keeps to a number of bytes for some sizes need not for others
        reason = ""
        if standing != key:
            reason = self._of_class(standing, offers)
        for types in dict.fromkeys((standing, key)):
            known = self._known.get(types)
            if isinstance(known, Decisions):
                try:
                    return self._follow(known, types, key, head, offers, trace)
                except Changed as changed:
                    reason = str(changed)
        decided, decisions = self._anew(head, offers)
        if reason:
            alone, others = _shown(self._graph, key), _shown(self._graph, standing)
            decided.ledger.decided.append(f"decided for {alone} alone, not as for {others}: {reason}")
        self._keep(key, decisions)
        return decided

    def _of_class(self, standing: Key, offers: Offers) -> str:
        """See that the representative is decided for; why it cannot be, or an empty string."""
        known = self._known.get(standing)
        if known is None:
            try:
                _, known = self._anew(self._specialised(standing), offers)
            except KernelFailure:
                raise
            except AutofusionError as error:
                known = str(error)
            self._keep(standing, known)
        return known if isinstance(known, str) else ""

    def _keep(self, key: Key, decisions: Decisions | str) -> None:
        self._known[key] = decisions
        while len(self._known) > KEPT:
            self._known.popitem(last=False)

    def _anew(self, head: Graph, offers: Offers) -> tuple[Decided, Decisions]:
        context = self._context
        recipe = Recipe()
        fused, ledger = context.optimise(head, offers, recipe)
        fused.sort()
        choices = choose(fused, offers)
        context.plans.counters.full += 1
        decisions = Decisions(outline(head), recipe, ledger, remember(choices))
        return Decided(fused, ledger, choices, replayed=False), decisions

    def _follow(
        self, decisions: Decisions, standing: Key, key: Key, head: Graph, offers: Offers, trace: Trace | None
    ) -> Decided:
        context = self._context
        other = difference(decisions.outline, outline(head))
        if other:
            raise Changed(other)
        fused = follow(decisions.recipe, head, self._switches, context.options)
        if fused is head:
            fused = head.copy()
        if trace is not None and self._templates.get(standing) is None:
            self._templates[standing] = Template(
                head, trace, decisions.recipe, fused, self._switches, context.evaluate, context.plans.planning
            )
            while len(self._templates) > TEMPLATES:
                self._templates.popitem(last=False)
        choices = choose(fused, offers, decisions.choices)
        return Decided(fused, self._taken_over(decisions, standing, key), choices, replayed=True)

    def _taken_over(self, decisions: Decisions, standing: Key, key: Key) -> Ledger:
        if standing == key:
            return decisions.ledger
        said = f"decided for {_shown(self._graph, standing)} and taken over for near sizes"
        return dataclasses.replace(decisions.ledger, decided=[said])


def _shown(graph: Graph, key: Key) -> str:
    return ", ".join(f"'{value.name}' {type_}" for value, type_ in zip(graph.inputs, key, strict=True)) or "no inputs"
