"""The stages put together: canonicalise and fold on their own (shape independent), or all three with the planner."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.cost.model import CostModel
from autofusion.fusion.kernel_switches import KernelSwitches
from autofusion.fusion.kernels import Kernels
from autofusion.fusion.ledger import Ledger
from autofusion.fusion.planner import Planner
from autofusion.fusion.rewrite import Rewriter
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.collector import collector_paused
from autofusion.ir.graph import Graph
from autofusion.kernels.contract import KernelPack
from autofusion.kernels.target import Target
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


def optimise(
    graph: Graph,
    packs: Sequence[RulePack],
    kernel_packs: Sequence[KernelPack],
    target: Target,
    cost_model: CostModel,
    options: Options,
    kernel_switches: KernelSwitches | None = None,
) -> tuple[Graph, Ledger]:
    """A copy of ``graph`` after all stages; at level off, the graph itself. Fuses where types are static.

    ``kernel_switches`` are those of ``options``, where the caller keeps them (they remember what packs offer).
    """
    prepared, ledger = prepare(graph, packs, options)
    if options.level is Level.OFF:
        return prepared, ledger
    switches = kernel_switches or KernelSwitches(kernel_packs, options)
    fuse(prepared, packs, Kernels(kernel_packs, target, cost_model, switches), options, ledger)
    return prepared, ledger


def fuse(graph: Graph, packs: Sequence[RulePack], kernels: Kernels, options: Options, ledger: Ledger) -> None:
    """The fuse stage alone, on ``graph`` itself."""
    with collector_paused():
        Planner(graph, Switches(packs, options), kernels, options, ledger).run()
