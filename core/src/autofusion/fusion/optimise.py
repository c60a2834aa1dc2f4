"""The stages put together: canonicalise and fold on their own (shape independent), or all three with the planner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autofusion.cost.model import CostModel
from autofusion.cost.target import Target
from autofusion.fusion.kernels import Kernels
from autofusion.fusion.ledger import Ledger
from autofusion.fusion.options import FusionOptions, Switches
from autofusion.fusion.planner import Planner
from autofusion.fusion.rewrite import Rewriter
from autofusion.fusion.rule import Level, RulePack, Stage
from autofusion.ir.graph import Graph

if TYPE_CHECKING:  # lowering is the layer above; only its contract's shape is needed here
    from autofusion.lowering.contract import KernelPack


def prepare(graph: Graph, packs: Sequence[RulePack], options: FusionOptions) -> tuple[Graph, Ledger]:
    """A copy of ``graph`` after the stages canonicalise and fold; at level off, the graph itself.

    Raises OptionError if ``options`` names rules that ``packs`` do not have.
    """
    ledger = Ledger(level=options.level.name.lower())
    switches = Switches(packs, options)
    if options.level is Level.OFF:
        return graph, ledger
    copy = graph.copy()
    copy.prune()
    _rewrite(copy, switches, options, ledger)
    return copy, ledger


def optimise(
    graph: Graph,
    packs: Sequence[RulePack],
    kernel_packs: Sequence[KernelPack],
    target: Target,
    cost_model: CostModel,
    options: FusionOptions,
) -> tuple[Graph, Ledger]:
    """A copy of ``graph`` after all stages; at level off, the graph itself. Fuses where types are static."""
    prepared, ledger = prepare(graph, packs, options)
    if options.level is Level.OFF:
        return prepared, ledger
    kernels = Kernels(kernel_packs, target, cost_model)
    Planner(prepared, Switches(packs, options), kernels, options, ledger).run()
    return prepared, ledger


def _rewrite(graph: Graph, switches: Switches, options: FusionOptions, ledger: Ledger) -> None:
    for stage in (Stage.CANONICALISE, Stage.FOLD):
        Rewriter(graph, stage, switches, ledger, options.time_budget_s).run()
