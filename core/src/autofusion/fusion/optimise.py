"""The stages put together: canonicalise and fold on their own (shape independent), or all three with the planner."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.fusion.kernels import Kernels
from autofusion.fusion.ledger import Ledger
from autofusion.fusion.planner import Planner
from autofusion.fusion.rewrite import Rewriter
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.collector import collector_paused
from autofusion.ir.graph import Graph
from autofusion.offers.ask import Offers
from autofusion.options import Options
from autofusion.rules.level import Level
from autofusion.rules.rule import RulePack, Stage


def prepare(graph: Graph, packs: Sequence[RulePack], options: Options) -> tuple[Graph, Ledger]:
    """A copy of ``graph`` after the stages canonicalise and fold; at level off, the graph itself.

    Raises OptionError if ``options`` names rules that ``packs`` do not have.
    """
    ledger = Ledger(level=options.level.name.lower())
    switches = Switches(packs, options)
    if options.level is Level.OFF:
        return graph, ledger
    with collector_paused():
        copy = graph.copy()
        copy.prune()
        for stage in (Stage.CANONICALISE, Stage.FOLD):
            Rewriter(copy, stage, switches, ledger, options.time_budget).run()
    return copy, ledger


def optimise(graph: Graph, packs: Sequence[RulePack], offers: Offers, options: Options) -> tuple[Graph, Ledger]:
    """A copy of ``graph`` after all stages; at level off, the graph itself. Fuses where types are static and ``offers``
    has a kernel.
    """
    prepared, ledger = prepare(graph, packs, options)
    if options.level is not Level.OFF:
        fuse(prepared, packs, offers, options, ledger)
    return prepared, ledger


def fuse(graph: Graph, packs: Sequence[RulePack], offers: Offers, options: Options, ledger: Ledger) -> None:
    """The fuse stage alone, on ``graph`` itself."""
    with collector_paused():
        Planner(graph, Switches(packs, options), Kernels(offers), options, ledger).run()
