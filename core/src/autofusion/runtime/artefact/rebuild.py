"""Plans made again from the graphs of an artefact: where its code cannot run, and for other shapes."""

from __future__ import annotations

import warnings
from typing import Any

from autofusion.cost.model import CostModel
from autofusion.cost.store import current
from autofusion.errors import AutofusionError, KernelError, ModelError, PackWarning
from autofusion.fusion.ledger import Ledger, Record, Verdict
from autofusion.kernels.contract import Layout
from autofusion.kernels.isa import instruction_sets
from autofusion.kernels.target import Target
from autofusion.lowering.lower import lower
from autofusion.lowering.recall import Chosen, choose
from autofusion.options import Options, state
from autofusion.plugins.registry import default_registry
from autofusion.runtime.arena import Arenas
from autofusion.runtime.artefact.container import Container
from autofusion.runtime.artefact.graphs import read
from autofusion.runtime.context import Context
from autofusion.runtime.plans import Plans
from autofusion.runtime.runner import PlanRunner
from autofusion.runtime.session import Session


def rebuild(container: Container, reason: str) -> dict[tuple[str, ...], PlanRunner]:
    """A plan for each fused graph in the file, by the types of its inputs.

    Empty where parts of the model are only planned as it runs: such a model is compiled when it first does.
    """
    context = _context(container)
    graphs = container.json("graphs")
    if None in graphs["stages"]:
        return {}
    section, arenas = container.section("constants"), Arenas()
    found: dict[tuple[str, ...], PlanRunner] = {}
    for about, text, choices in zip(container.manifest["plans"], graphs["stages"], graphs["choices"], strict=True):
        graph = read(text, graphs["constants"], section)
        offers = context.offers()
        try:
            plan = lower(graph, offers, choose(graph, offers, {name: _chosen(each) for name, each in choices.items()}))
            runner = PlanRunner(plan, context.bind_context, arenas.take(plan.arena_bytes))
        except AutofusionError as error:
            raise KernelError(_refusal(container, f"{reason}; its graph cannot be compiled here: {error}")) from error
        found[tuple(about["key"])] = runner
    return found


def compile_again(container: Container) -> Session:
    """A session of the graph as the frontend gave it."""
    graphs = container.json("graphs")
    graph = read(graphs["source"], graphs["constants"], container.section("constants"))
    context = _context(container)
    wanted = {f"{name} {version}" for group, name, version in container.manifest["packs"] if group == "rules"}
    missing = sorted(wanted - {f"{pack.name} {pack.version}" for pack in context.rule_packs})
    if missing:
        warnings.warn(
            f"'{container.path}' was compiled with rule packs that are not installed ({', '.join(missing)}): for "
            "inputs without a plan in the file, the model is compiled without them",
            PackWarning,
            stacklevel=2,
        )
    return Session(graph, context)


def read_ledger(container: Container) -> Ledger:
    """The ledger in the file."""
    data = container.json("ledger")
    records = []
    for each in data["records"]:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in each.items()}
        records.append(Record(**{**fields, "verdict": Verdict(each["verdict"])}))
    return Ledger(records, data["rule_seconds"], data["level"], data["decided"])


def _context(container: Container) -> Context:
    manifest = container.manifest
    try:
        made_for = Target(**manifest["target"])
        options = Options.of(state(manifest["options"], "option '{}' of the artefact"))
    except (TypeError, AutofusionError) as error:
        raise ModelError(f"artefact '{container.path}' is of another version of autofusion: {error}") from error
    target = made_for if made_for.isa in instruction_sets() else current(options.threads)
    registry = default_registry()
    packs = registry.kernel_packs(target)
    if not packs:
        raise KernelError(_refusal(container, "no kernel pack is installed that runs on this machine"))
    return Context(registry.rule_packs, packs, target, CostModel(target), options, Plans.within(options))


def _refusal(container: Container, reason: str) -> str:
    manifest = container.manifest
    packs = ", ".join(f"{name} {version}" for group, name, version in manifest["packs"] if group == "kernels")
    return (
        f"artefact '{container.path}' was made for {manifest['target']['isa']} with kernel packs {packs}, and cannot "
        f"run here: {reason}"
    )


def _chosen(about: list[Any]) -> Chosen:
    pack, kernel, blocks = about
    return Chosen(pack, kernel, tuple(None if block is None else Layout(block) for block in blocks), (), ())
