"""From a model to its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import autofusion
from autofusion.tools import baseline
from autofusion.tools import profile as profiler
from autofusion.tools.inputs import Wanted, random_inputs
from autofusion.tools.view.data import page_data
from autofusion.tools.view.page import render


def build(
    model: Path,
    shapes: Mapping[str, Sequence[int]],
    settings: Mapping[str, Any],
    feeds: Mapping[str, Any] | None = None,
    runs: int = 0,
    wanted: Wanted | None = None,
) -> str:
    """The HTML page of ``model`` compiled with ``settings`` (keywords of ``autofusion.compile``), beside level off.

    ``runs`` more than 0 profiles both over so many runs, on ``feeds`` or on made-up inputs of ``shapes``
    that are what is ``wanted``.
    """
    loading = {name: settings[name] for name in ("inputs", "outputs") if name in settings}
    graph = autofusion.load(model, **loading)
    others = {name: value for name, value in settings.items() if name not in loading}
    session = autofusion.compile(graph, shapes=shapes or None, **others)
    given = feeds
    if given is None and (runs or not session.stages or session.stage.tail is not None):
        given = random_inputs(session.graph, shapes, wanted=wanted)
    baseline.planned(session, shapes, given)
    off = baseline.unfused(session, given)
    profiles = None
    if runs:
        assert given is not None
        profiles = (profiler.profile(off, given, runs), profiler.profile(session, given, runs))
    return render(page_data(model.name, session, off, profiles, len(graph.nodes)))
