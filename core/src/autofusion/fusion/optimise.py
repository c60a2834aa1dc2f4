"""The stages put together: canonicalise and fold on their own (shape independent), or all three with the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofusion.fusion.kernels import Kernels
from autofusion.fusion.ledger import Ledger, Record
from autofusion.fusion.planner import Planner
from autofusion.fusion.recipe import Recipe
from autofusion.fusion.rewrite import Rewriter
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.collector import collector_paused
from autofusion.ir.graph import Graph
from autofusion.offers.ask import Offers
from autofusion.options import Options
from autofusion.rules.level import Level
from autofusion.rules.rule import RulePack, Stage


def prepare(
    graph: Graph, packs: Sequence[RulePack], options: Options, recipe: Recipe | None = None
) -> tuple[Graph, Ledger]:
    """A copy of ``graph`` after the stages canonicalise and fold; at level off, the graph itself. ``recipe`` takes down
    what was applied.

    Raises OptionError if ``options`` names rules that ``packs`` do not have.
    """
    ledger = Ledger(level=options.level.name.lower())
    switches = Switches(packs, options)
    if options.level is Level.OFF:
        return graph, ledger
    with collector_paused():
        without: dict[str, Record] = {}
        while True:
            copy = graph.copy()
            copy.prune()
            diverged = _rewrite(copy, switches, ledger, options, recipe, without)
            if not diverged:
                return copy, ledger
            # What went in circles has left its traces all over the graph: begin again without it.
            without |= diverged
            ledger = Ledger(level=ledger.level)
            if recipe is not None:
                recipe.rewritten.clear()


def _rewrite(
    graph: Graph,
    switches: Switches,
    ledger: Ledger,
    options: Options,
    recipe: Recipe | None,
    without: Mapping[str, Record],
) -> dict[str, Record]:
    """The rules that went in circles, with what to tell of them; empty if the stages came to their ends."""
    for stage in (Stage.CANONICALISE, Stage.FOLD):
        rewriter = Rewriter(graph, stage, switches, ledger, options.time_budget, recipe, without)
        rewriter.run()
        if rewriter.diverged:
            return rewriter.diverged
    return {}


def optimise(
    graph: Graph, packs: Sequence[RulePack], offers: Offers, options: Options, recipe: Recipe | None = None
) -> tuple[Graph, Ledger]:
    """A copy of ``graph`` after all stages; at level off, the graph itself. Fuses where types are static and ``offers``
    has a kernel. ``recipe`` takes down what was applied.
    """
    prepared, ledger = prepare(graph, packs, options, recipe)
    if options.level is not Level.OFF:
        fuse(prepared, packs, offers, options, ledger, recipe)
    return prepared, ledger


def fuse(
    graph: Graph,
    packs: Sequence[RulePack],
    offers: Offers,
    options: Options,
    ledger: Ledger,
    recipe: Recipe | None = None,
) -> None:
    """The fuse stage alone, on ``graph`` itself."""
    with collector_paused():
        Planner(graph, Switches(packs, options), Kernels(offers), options, ledger, recipe).run()
