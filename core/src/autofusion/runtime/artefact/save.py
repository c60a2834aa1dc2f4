"""A session written to a file: what ``autofusion compile`` does."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion.errors import InputError, OptionError
from autofusion.ir.graph import Value
from autofusion.ir.literals import type_text
from autofusion.kernels.contract import KernelPack
from autofusion.kernels.saving import Saved
from autofusion.lowering.plan import Border, OutputSpec, Plan
from autofusion.offers.guard import GuardedSegment, guarded
from autofusion.options import SETTINGS, plain
from autofusion.refusal import Refusal
from autofusion.runtime.artefact import trust
from autofusion.runtime.artefact.container import write
from autofusion.runtime.artefact.graphs import Constants
from autofusion.runtime.artefact.storage import ArrayStorage

if TYPE_CHECKING:
    from autofusion.runtime.executor import Stage
    from autofusion.runtime.session import Session

OTHER_SHAPES = ("plan", "error")
"""What a loaded artefact does with input shapes that it has no plan for: make one, or raise InputError."""


def save(session: Session, path: Path, *, other_shapes: str = "plan") -> str:
    """Write ``session`` with its plans to the file ``path``; return the digest that ``trust=`` takes.

    Raises InputError if nothing is compiled yet, and ModelError for a model that has no text form.
    """
    if other_shapes not in OTHER_SHAPES:
        raise OptionError(f"other_shapes is '{other_shapes}', expected one of {', '.join(OTHER_SHAPES)}")
    stages = session.executor.stages
    if not stages:
        raise InputError("nothing is compiled yet: state the shapes to save plans for")
    storage, constants = ArrayStorage(), Constants()
    native = _segments(session, stages, storage)
    saved = native if isinstance(native, Saved) else None
    plans = [_plan(stage, saved is not None, storage) for stage in stages]
    graphs: dict[str, Any] = {
        "source": constants.text(session.source),
        "stages": [
            None if stage.tail is not None or session.has_bodies else constants.text(stage.runner.plan.graph)
            for stage in stages
        ],
        "choices": [_choices(stage.runner.plan) for stage in stages],
    }
    graphs["constants"] = constants.table()
    inputs = [_input(value, storage) for value in session.graph.inputs]
    manifest = {
        "name": session.graph.name,
        "inputs": inputs,
        "outputs": [
            [name, type_text(v.type)] for name, v in zip(session.graph.output_names, session.graph.outputs, strict=True)
        ],
        "other_shapes": other_shapes,
        "options": _options(session),
        "target": dataclasses.asdict(session.context.target),
        "packs": _packs(session),
        "distributions": _distributions(),
        "plans": plans,
        "segments": None if saved is None else _pack_of(stages),
        "unsaved": native.reason if isinstance(native, Refusal) else "",
    }
    digest = write(
        path,
        manifest,
        {
            "segments": [json.dumps({} if saved is None else saved.data, separators=(",", ":")).encode()],
            "code": [b"" if saved is None else saved.code],
            "weights": storage.parts(),
            "graphs": [json.dumps(graphs).encode()],
            "constants": constants.parts(),
            "ledger": [json.dumps(_ledger(session)).encode()],
        },
    )
    trust.remember(digest)
    return digest


def _segments(session: Session, stages: Sequence[Stage], storage: ArrayStorage) -> Saved | Refusal:
    """What the only pack that the plans run on saves of them, or why they are to be made again at load."""
    if session.has_bodies or any(stage.tail is not None for stage in stages):
        return Refusal("parts of it are only planned as it runs")
    found: list[tuple[KernelPack, GuardedSegment]] = []
    for stage in stages:
        segments = stage.runner.segments
        if segments is None:
            return Refusal("some of its steps are not machine code")
        found += segments
    packs = {pack.name for pack, _ in found}
    if len(packs) != 1:
        return Refusal(f"its steps are of packs {', '.join(sorted(packs))}" if packs else "it has no steps")
    return guarded(found[0][0]).save_segments([segment for _, segment in found], storage)


def _pack_of(stages: Sequence[Stage]) -> str:
    return next(pack.name for stage in stages for pack, _ in stage.runner.segments or ())


def _plan(stage: Stage, native: bool, storage: ArrayStorage) -> dict[str, Any]:
    plan = stage.runner.plan
    key = [type_text(value.type) for value in stage.graph.inputs]
    if not native:
        return {"key": key}
    return {
        "key": key,
        "segments": len(stage.runner.segments or ()),
        "external": [type_text(type_) for type_ in plan.external],
        "input_slots": plan.input_slots,
        "outputs": [_output(spec, storage) for spec in plan.outputs],
        "arena": plan.arena_bytes,
        "peak": plan.peak_bytes,
        "borders": [_border(border) for border in plan.borders],
    }


def _output(spec: OutputSpec, storage: ArrayStorage) -> dict[str, Any]:
    constant = None if spec.constant is None else _array(spec.constant, storage)
    return {"name": spec.name, "type": type_text(spec.type), "slot": spec.slot, "constant": constant}


def _array(array: np.ndarray, storage: ArrayStorage) -> list[Any]:
    whole = np.ascontiguousarray(array)
    return [storage.put(whole), list(array.shape), str(array.dtype)]


def _border(border: Border) -> list[Any]:
    return [border.offset, str(border.dtype), list(border.shape), list(border.widths)]


def _input(value: Value, storage: ArrayStorage) -> dict[str, Any]:
    default = None if value.default is None else _array(value.default, storage)
    return {"name": value.name, "type": type_text(value.type), "default": default}


def _choices(plan: Plan) -> dict[str, Any]:
    """Node -> pack, kernel and channel blocks of the layouts, for every node that a kernel runs."""
    return {
        step.node.name: [
            step.pack.name,
            step.offer.kernel,
            [None if each is None else each.layout.block for each in (*step.offer.inputs, *step.offer.outputs)],
        ]
        for step in plan.steps
        if not step.is_reorder
    }


def _options(session: Session) -> Mapping[str, Any]:
    return plain(
        {
            name: getattr(session.context.options, name)
            for name in SETTINGS
            if getattr(session.context.options, name) is not None
        }
    )


def _packs(session: Session) -> list[list[str]]:
    context = session.context
    rules = [["rules", pack.name, pack.version] for pack in context.rule_packs]
    return rules + [["kernels", pack.name, pack.version] for pack in context.kernel_packs]


def _distributions() -> list[list[str]]:
    """Distribution, version and digest of the core and of every pack that is loaded: what a lock would say."""
    from importlib.metadata import version

    from autofusion.plugins.digest import content_digest
    from autofusion.plugins.lock import CORE
    from autofusion.plugins.records import Status
    from autofusion.plugins.registry import default_registry

    loaded = {r.dist for r in default_registry().records if r.status is Status.LOADED}
    return [[dist, version(dist), content_digest(dist)] for dist in [CORE, *sorted(loaded)]]


def _ledger(session: Session) -> dict[str, Any]:
    ledger = session.ledger
    return {
        "level": ledger.level,
        "decided": ledger.decided,
        "rule_seconds": ledger.rule_seconds,
        "records": [{**dataclasses.asdict(record), "verdict": record.verdict.value} for record in ledger.records],
    }
