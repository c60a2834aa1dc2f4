"""From a model file, or a graph, to a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autofusion.cost.detect import usable_cores
from autofusion.cost.model import CostModel
from autofusion.errors import PLUGIN_FAULTS, AutofusionError, ModelError, OptionError, nearest
from autofusion.frontends.contract import LoadOptions
from autofusion.fusion.kernel_switches import KernelSwitches
from autofusion.fusion.options import FusionOptions, Switches
from autofusion.ir.graph import Graph
from autofusion.ir.specialise import specialise
from autofusion.kernels.target import Target
from autofusion.numerics import Numerics
from autofusion.plugins.records import describe
from autofusion.plugins.registry import Registry, default_registry
from autofusion.rules.rule import Level
from autofusion.runtime.config import Settings, environment_settings, locked_settings, read_settings
from autofusion.runtime.context import Context
from autofusion.runtime.executor import static_key
from autofusion.runtime.session import Session

if TYPE_CHECKING:
    from os import PathLike

MOST_THREADS = 1024
"""More than any machine has cores; each of them costs a stack and an entry in every table."""


def load(
    model: str | PathLike[str],
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    key: bytes | None = None,
    registry: Registry | None = None,
) -> Graph:
    """Read a model file (or SavedModel directory) into a graph with the frontend that recognises it.

    Raises ModelError if the file is broken, of an unknown kind, or uses what its frontend does not know.
    """
    registry = registry or default_registry()
    path = Path(model)
    frontend = registry.frontend_for(path)
    try:
        return frontend.load(path, LoadOptions(tuple(inputs), tuple(outputs), key))
    except AutofusionError:
        raise
    except PLUGIN_FAULTS as error:  # a frontend is a plugin: whose fault it is must be told
        who = f"frontend '{frontend.name}' {frontend.version}"
        raise ModelError(f"{who} failed on '{path}', which it should read or refuse: {describe(error)}") from error


def compile(
    model: str | PathLike[str] | Graph,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    level: str | Level | None = None,
    threads: int | None = None,
    only: Sequence[str] = (),
    disable: Sequence[str] = (),
    disable_sites: Sequence[str] = (),
    only_sites: Sequence[str] | None = None,
    disable_kernels: Sequence[str] = (),
    priorities: Mapping[str, int | str] | None = None,
    memory_budget: int | None = None,
    numerics: str | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    key: bytes | None = None,
    target: Target | None = None,
    registry: Registry | None = None,
    config: str | PathLike[str] | None = None,
) -> Session:
    """Compile a model and return its session.

    ``shapes`` (input name -> shape) compiles for these shapes now; dims that the model leaves open and that are
    not stated are taken from the inputs of each run. ``level`` is ``off``, ``basic`` or ``full`` (the default).
    ``threads`` defaults to the cores this process may use. ``only``, ``disable`` (rule or pack names),
    ``disable_sites`` (source node names, or ``rule:node``; ``only_sites`` leaves out all others) and
    ``disable_kernels`` (``pack:kernel``, or ``pack:kernel@node``) switch rules, places and kernels; ``memory_budget``
    (bytes) refuses fusions that would raise the peak beyond it. ``numerics`` is the most that a kernel may differ from
    the reference kernels: ``exact`` (not by a bit), ``reassociated`` (the same arithmetic in another order) or
    ``approximate`` (the default: other algorithms with a bounded error as well). ``config`` is a settings file (see
    ``runtime/config.py``), by default the one that the environment variable AUTOFUSION_CONFIG names; what is switched
    off there adds to what is switched off here, and any other argument wins over it; so do AUTOFUSION_LEVEL,
    AUTOFUSION_THREADS and AUTOFUSION_NUMERICS, for a program that states none. ``priorities`` maps rules to bands
    (``early``) or numbers. Under a lock (environment variable AUTOFUSION_LOCK) its settings come below all of these,
    and the machine is the one that was locked.
    """
    from autofusion.cost.store import current

    registry = registry or default_registry()
    settings = Settings(
        level,
        threads,
        tuple(only),
        tuple(disable),
        tuple(disable_sites),
        tuple(disable_kernels),
        dict(priorities or {}),
        memory_budget,
        numerics,
        None if only_sites is None else tuple(only_sites),
    ).over(environment_settings())
    settings = settings.over(read_settings(config, registry.rule_packs))
    settings = settings.over(locked_settings(registry))
    threads = _threads(settings.threads)
    graph = (
        model if isinstance(model, Graph) else load(model, inputs=inputs, outputs=outputs, key=key, registry=registry)
    )
    target = target or _locked_target(registry, settings.threads) or current(threads)
    options = FusionOptions(
        level=Level.FULL if settings.level is None else parse_level(settings.level),
        only=frozenset(settings.only),
        disable=frozenset(settings.disable),
        disable_sites=frozenset(settings.disable_sites),
        only_sites=None if settings.only_sites is None else frozenset(settings.only_sites),
        disable_kernels=frozenset(settings.disable_kernels),
        priorities=settings.priorities,
        memory_budget_bytes=settings.memory_budget,
        numerics=Numerics.parse(settings.numerics or Numerics.APPROXIMATE),
    )
    kernel_packs = registry.kernel_packs(target)
    Switches(registry.rule_packs, options, graph)  # refuses unknown names while the graph still has all of them
    KernelSwitches(kernel_packs, options, graph)
    context = Context(registry.rule_packs, kernel_packs, target, CostModel(target), options)
    session = Session(specialise(graph, {}, context.evaluate), context)
    if shapes is not None:
        session.prepare({name: tuple(shape) for name, shape in shapes.items()})
    elif static_key(session.graph) is not None:
        session.prepare({})
    return session


def parse_level(level: str | Level) -> Level:
    """``off``, ``basic`` or ``full``; raise OptionError for anything else."""
    if isinstance(level, Level):
        return level
    names = [each.name.lower() for each in Level]
    if level not in names:
        raise OptionError(f"unknown level '{level}': expected one of {', '.join(names)}{nearest(level, names)}")
    return Level[level.upper()]


def _locked_target(registry: Registry, threads: int | None) -> Target | None:
    from autofusion.cost.store import locked_target

    lock = registry.lock_file
    return locked_target(lock.target, lock.path, threads) if lock is not None and lock.target else None


def _threads(threads: int | None) -> int:
    if threads is None:
        return usable_cores()
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MOST_THREADS:
        raise OptionError(f"threads must be a whole number of at least 1 and at most {MOST_THREADS}, found {threads!r}")
    return threads
