"""A session with all its plans made, and the same model at level off for the same shapes: what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autofusion.errors import AutofusionError, InputError
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
from autofusion.rules.level import Level
from autofusion.runtime.session import Session
from autofusion.tools.inputs import random_inputs


def planned(session: Session, shapes: Mapping[str, Sequence[int]], feeds: Mapping[str, Any] | None = None) -> Session:
    """``session`` with every plan made. Where something is only planned as it runs (open shapes, tails, bodies of
    control flow), it is run once, on ``feeds`` or on random inputs of ``shapes``.

    Raises InputError if the model does not take the random ones.
    """
    bodies = any(isinstance(a, Graph) for n in session.graph.nodes for a in n.attrs.values())
    if not session.stages or session.stage.tail is not None or bodies:
        if feeds is not None:
            session.run(feeds)
        else:
            _run_on_random(session, shapes)
    return session


def _run_on_random(session: Session, shapes: Mapping[str, Sequence[int]]) -> None:
    """Run ``session`` once; InputError if the model does not take what was made up."""
    made = random_inputs(session.graph, shapes)
    try:
        session.run(made)
    except AutofusionError as error:
        raise InputError(
            f"part of the model is only planned as it runs, and made-up inputs do not suit it ({error}); "
            "state others with --data"
        ) from error


def unfused(session: Session, feeds: Mapping[str, Any] | None = None) -> Session:
    """``session``'s model at level off, planned for the shapes that ``session`` was compiled for last."""
    own = session.context.variant(level=Level.OFF)
    own.cache = {}  # what only the unfused plan packs goes with it
    off = Session(session.source, own)
    types = {v.name: v.type for v in session.stage.graph.inputs}
    shapes = {n: t.static_shape for n, t in types.items() if isinstance(t, TensorType) and t.is_static}
    if len(shapes) == len(types):
        off.prepare(shapes)
    return planned(off, shapes, feeds)
