"""Everything that the page shows, as plain data: both graphs, the ledger, times, memory, regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from autofusion.runtime.session import Session
from autofusion.tools import explain
from autofusion.tools.profile import Profile
from autofusion.tools.view import dense
from autofusion.tools.view.drawing import drawn


def page_data(
    name: str, session: Session, baseline: Session, profiles: tuple[Profile, Profile] | None = None, loaded: int = 0
) -> dict[str, Any]:
    """The data of the page for ``session`` beside ``baseline`` (the same model at level off), both planned.

    ``profiles`` are those of baseline and session. ``loaded`` is the number of nodes that the file's reader gave.
    """
    target = session.context.target
    measured = (None, None) if profiles is None else profiles
    before = _side("off", "Level off", baseline, measured[0])
    level = session.context.options.level.name.lower()
    after = _side("on", f"Level {level}", session, measured[1])
    ledger = session.ledger
    records = [explain.record_data(r) for r in ledger.records]
    for side in (before, after):
        side["regions"] = _regions(side["graph"], after["graph"])
    return {
        "name": name,
        "version": version("autofusion"),
        "level": level,
        "loaded": loaded,
        "machine": f"{target.isa}, {target.threads} thread{'s' if target.threads != 1 else ''}",
        "profiled": profiles is not None,
        "packs": [[p.name, p.version, "rules"] for p in session.context.rule_packs]
        + [[p.name, p.version, "kernels"] for p in session.context.kernel_packs],
        "counts": ledger.counts(),
        "records": records,
        "sides": [before, after],
    }


def _side(key: str, label: str, session: Session, profile: Profile | None) -> dict[str, Any]:
    seconds = {} if profile is None else {id(s.step.node): s.seconds for s in profile.steps}
    steps = [s for plan in explain.plans(session) for s in plan.steps]
    return {
        "key": key,
        "label": label,
        "graph": drawn(session, seconds),
        "steps": len(steps),
        "predicted": sum(s.seconds for s in steps),
        "seconds": None if profile is None else profile.seconds,
        "peak": explain.peak_bytes(session),
        "arena": explain.arena_bytes(session),
    }


def _regions(graph: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Dense regions of ``graph``, each with the number of steps that its operators take in ``after``."""
    runs_in = {name: i for i, n in enumerate(after["nodes"]) if "kernel" in n for name in n.get("origin", ())}
    nodes: Sequence[Mapping[str, Any]] = graph["nodes"]
    found = []
    for members in dense.regions(nodes, graph["edges"]):
        names = [name for i in members for name in nodes[i]["origin"]]
        busy = [nodes[i] for i in members if "free" not in nodes[i]]
        timed = [n["seconds"] for n in busy if "seconds" in n]
        found.append(
            {
                "nodes": members,
                "operators": len(busy),
                "steps": len({runs_in[name] for name in names if name in runs_in}),
                "predicted": sum(n.get("predicted", 0.0) for n in busy),
                "seconds": sum(timed) if timed else None,
            }
        )
    return found
