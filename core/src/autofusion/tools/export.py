"""Write what Autofusion made of a model back to a standard file, so that any other runtime or converter can use it."""

from __future__ import annotations

from pathlib import Path

from autofusion.errors import PluginError
from autofusion.fusion.rule import RewriteRule
from autofusion.ir.graph import FUSED, Graph
from autofusion.plugins.frontend import Exporter
from autofusion.plugins.registry import Registry, default_registry
from autofusion.runtime.session import Session


def kept_back(registry: Registry | None = None) -> list[str]:
    """Names of the rules to do without when compiling for export: those whose results suit the kernels here only."""
    packs = (registry or default_registry()).rule_packs
    return [rule.name for pack in packs for rule in pack.rules if isinstance(rule, RewriteRule) and not rule.portable]


def export(session: Session, path: Path | str, *, inline: bool = False, registry: Registry | None = None) -> int:
    """Write the session's graph to ``path`` in the format of its suffix; return the number of nodes written.

    The graph is the last compiled one if the session was compiled for shapes, otherwise the prepared one with open
    dims. It should have been compiled without the rules that are ``kept_back``. Raises PluginError if no installed
    frontend writes that format, ModelError if the graph cannot be said in it.
    """
    path = Path(path)
    writers = [f for f in (registry or default_registry()).frontends if isinstance(f, Exporter)]
    chosen = next((f for f in writers if path.suffix in f.suffixes), None)
    if chosen is None:
        known = ", ".join(suffix for f in writers for suffix in f.suffixes) or "none"
        raise PluginError(f"no installed frontend writes '{path.suffix}' files; suffixes that can be written: {known}")
    graph = exported_graph(session)
    chosen.export(graph, path, inline=inline)
    if not inline:
        return len(graph)
    return sum(len(node.body) if node.op == FUSED else 1 for node in graph.nodes)


def exported_graph(session: Session) -> Graph:
    """The graph that ``export`` writes."""
    stages = session.stages
    if stages and stages[0].tail is None and stages[0] is session.stage:
        return stages[0].runner.plan.graph
    return session.graph
