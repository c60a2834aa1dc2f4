"""From a model file, or a graph, to a session."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofusion.cost.detect import usable_cores
from autofusion.cost.model import CostModel
from autofusion.errors import AutofusionError, ModelError, OptionError
from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.forks import forks_wait
from autofusion.frontends.contract import LoadOptions
from autofusion.frontends.source import Source, as_file
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.collector import collector_paused
from autofusion.ir.graph import Graph
from autofusion.ir.mapped import mapped_files
from autofusion.ir.shared import constants, share_constants
from autofusion.kernels.target import Target
from autofusion.offers.switches import KernelSwitches
from autofusion.options import Options, from_environment, state
from autofusion.plugins.records import LOG, describe
from autofusion.plugins.registry import Registry, default_registry, registry_for
from autofusion.runtime.config import locked_settings, read_settings
from autofusion.runtime.context import Context
from autofusion.runtime.executor import static_key
from autofusion.runtime.plans import Plans
from autofusion.runtime.session import Session

if TYPE_CHECKING:
    from os import PathLike


@forks_wait()
@collector_paused()
def load(
    model: Source,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    key: bytes | None = None,
    signature: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    registry: Registry | None = None,
) -> Graph:
    """Read a model file (or SavedModel directory) into a graph with the frontend that recognises it.

    ``model`` is a path, or the model itself: bytes, a file object opened for bytes, a message as ``onnx.ModelProto``.
    ``inputs`` and ``outputs`` name values inside the model that are to be its ends. ``signature`` chooses one of a
    SavedModel. ``shapes`` (input name -> shape) only gives inputs a rank where the file leaves even that open.
    Raises ModelError if the file is broken, of an unknown kind, or uses what its frontend does not know.
    """
    registry = registry or default_registry()
    options = LoadOptions(tuple(inputs), tuple(outputs), key, signature, dict(shapes or {}))
    with as_file(model) as path:
        return _load(path, options, registry)


def _load(path: Path, options: LoadOptions, registry: Registry) -> Graph:
    frontend = registry.frontend_for(path)
    try:
        added = registry.converters(frontend.name)
        graph = frontend.load(path, dataclasses.replace(options, converters=added))
        share_constants(graph)
        for file in mapped_files(value.const for value in constants(graph) if value.const is not None):
            file.release()
        return graph
    except PLUGIN_FAULTS as error:  # a frontend is a plugin: whose fault it is must be told
        require_own(error)
        if isinstance(error, AutofusionError):
            raise
        who = f"frontend '{frontend.name}' {frontend.version}"
        raise ModelError(f"{who} failed on '{path}', which it should read or refuse: {describe(error)}") from error


@forks_wait()
@collector_paused()
def compile(
    model: Source | Graph,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    key: bytes | None = None,
    signature: str | None = None,
    target: Target | None = None,
    registry: Registry | None = None,
    config: str | PathLike[str] | None = None,
    lock: str | PathLike[str] | None = None,
    **options: Any,
) -> Session:
    """Compile a model (whatever ``load`` takes, or a graph) and return its session.

    ``shapes`` (input name -> shape) compiles for these shapes now; dims that the model leaves open and that are not
    stated are taken from the inputs of each run. ``inputs``, ``outputs``, ``key`` and ``signature``: see ``load``.

    ``options`` are the fields of ``autofusion.Options``: ``level`` (``off``, ``basic`` or ``full``, the default),
    ``threads``, ``numerics``, ``disable`` and so on. ``config`` is a settings file (see ``runtime/config.py``), by
    default the one that the environment variable AUTOFUSION_CONFIG names. Every option may also come from a variable
    of its own (AUTOFUSION_LEVEL). What is switched off anywhere adds up; otherwise arguments win over the environment,
    that over the settings file, and all over a lock, whose machine is the target too: the file that ``lock`` names, by
    default the one that AUTOFUSION_LOCK does.

    Raises ModelError for a model that cannot be read, OptionError for an option that does not exist or has a wrong
    value, InputError for ``shapes`` that do not fit the model, PluginError if the environment is not what a lock says.
    """
    from autofusion.cost.store import current

    if lock is not None and registry is not None:
        raise OptionError("state either 'lock' or 'registry': a registry keeps to the lock that it was made with")
    made_here, given_target = registry is None, target
    registry = registry or (default_registry() if lock is None else registry_for(lock))
    chosen = Options.of(
        locked_settings(registry),
        read_settings(config, registry.rule_packs),
        from_environment(os.environ),
        state(options),
    )
    ends = {"inputs": inputs, "outputs": outputs, "key": key, "signature": signature, "shapes": shapes}
    graph = model if isinstance(model, Graph) else load(model, registry=registry, **ends)  # type: ignore[arg-type]
    target = target or _locked_target(registry, chosen.threads) or current(chosen.threads or usable_cores())
    if target.flush_denormals != chosen.flush_denormals:
        target = dataclasses.replace(target, flush_denormals=chosen.flush_denormals)
    kernel_packs = registry.kernel_packs(target)
    slow = registry.without_fast_kernels(target)
    if slow:
        LOG.warning("%s", slow)
    Switches(registry.rule_packs, chosen, graph)  # refuses unknown names while the graph still has all of them
    KernelSwitches(kernel_packs, chosen, graph)
    recipe = None
    if isinstance(model, str | os.PathLike) and made_here:
        files = {name: os.path.abspath(file) for name, file in (("config", config), ("lock", lock)) if file is not None}
        arguments = {**ends, "target": given_target, **options, **files}
        recipe = os.path.abspath(model), {n: v for n, v in arguments.items() if v is not None and v != ()}
    context = Context(registry.rule_packs, kernel_packs, target, CostModel(target), chosen, Plans.within(chosen))
    session = Session(context.specialise(graph, {}), context)
    session.recipe = recipe
    if shapes is not None:
        session.prepare({name: tuple(shape) for name, shape in shapes.items()})
    elif static_key(session.graph) is not None:
        session.prepare({})
    return session


def _locked_target(registry: Registry, threads: int | None) -> Target | None:
    from autofusion.cost.store import locked_target

    lock = registry.lock_file
    return locked_target(lock.target, lock.path, threads) if lock is not None and lock.target else None
