"""Fill the cache of compiled kernels before a model is needed: when an image is built, or a machine set up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofusion.cost.detect import detect
from autofusion.errors import OptionError
from autofusion.kernels.caching import CachingPack
from autofusion.plugins.registry import default_registry
from autofusion.runtime.compile import compile
from autofusion.runtime.executor import static_key
from autofusion.runtime.session import Session
from autofusion.tools.inputs import random_inputs


@dataclass(frozen=True, slots=True)
class Warmed:
    """What warming one model came to: kernels compiled now, kernels that were there, seconds."""

    model: Path
    compiled: int
    found: int
    seconds: float


def caching_packs() -> dict[str, CachingPack]:
    """The installed packs for this machine that keep kernels on disk, by name. OptionError if there is none."""
    packs = default_registry().kernel_packs(detect())
    found: dict[str, CachingPack] = {pack.name: pack for pack in packs if isinstance(pack, CachingPack)}
    if not found:
        raise OptionError(
            "no installed kernel pack keeps compiled kernels on disk: install autofusion-kernels-cpu, and see "
            "'autofusion plugins' for what is loaded"
        )
    return found


def warm(model: Path, shapes: Mapping[str, Sequence[int]], settings: Mapping[str, Any]) -> Warmed:
    """Compile the model for ``shapes`` (input name -> shape), bodies of its control flow too, and run it once.

    Raises OptionError if the kernels cannot be kept.
    """
    packs = caching_packs().values()
    start, before = time.perf_counter(), _counts(packs)
    session = compile(model, shapes=shapes or None, **settings)
    _plan_bodies(session)
    session.run(random_inputs(session.graph, shapes))
    compiled, found = (after - at_first for after, at_first in zip(_counts(packs), before, strict=True))
    if compiled:
        _require_kept(packs)
    return Warmed(model, compiled, found, time.perf_counter() - start)


def _plan_bodies(session: Session) -> None:
    """Plan every body whose input types are known: a run only comes to one branch of an If."""
    bodies = session.context.bodies
    planned: set[int] = set()
    while planned < bodies.keys():
        for key, body in list(bodies.items()):
            types = static_key(body.executor.graph)
            if key not in planned and types is not None:
                body.executor.stage(types)
            planned.add(key)


def _counts(packs: Iterable[CachingPack]) -> tuple[int, int]:
    counts = [pack.kernel_counts() for pack in packs]
    return sum(count[0] for count in counts), sum(count[1] for count in counts)


def _require_kept(packs: Iterable[CachingPack]) -> None:
    for pack in packs:
        for folder in pack.cache_folders():
            if folder.is_first and (folder.problem or not folder.kernels):
                reason = folder.problem or "cannot be written to"
                raise OptionError(f"compiled kernels are not kept in '{folder.path}': it {reason}")
