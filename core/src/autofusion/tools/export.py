"""Write what Autofusion made of a model back to a standard file, so that any other runtime or converter can use it."""

from __future__ import annotations

from pathlib import Path

from autofusion.errors import PluginError
from autofusion.frontends.contract import Exporter
from autofusion.fusion.ledger import Verdict
from autofusion.ir.graph import FUSED, Graph
from autofusion.plugins.registry import Registry, default_registry
from autofusion.rules.rule import RewriteRule, Rule
from autofusion.runtime.session import Session


def export(session: Session, path: Path | str, *, inline: bool = False, registry: Registry | None = None) -> int:
    """Write the session's graph to ``path`` in the format of its suffix; return the number of nodes written.

    The graph is the last compiled one if the session was compiled for shapes, otherwise the prepared one with open
    dims; rules whose results only suit the kernels here (``portable=False``) are undone. Raises PluginError if no
    installed frontend writes that format, ModelError if the graph cannot be said in it.
    """
    path = Path(path)
    writers = [f for f in (registry or default_registry()).frontends if isinstance(f, Exporter)]
    chosen = next((f for f in writers if path.suffix in f.suffixes), None)
    if chosen is None:
        known = ", ".join(suffix for f in writers for suffix in f.suffixes) or "none"
        raise PluginError(f"no installed frontend writes '{path.suffix}' files; suffixes that can be written: {known}")
    graph = exported_graph(portable(session))
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


def portable(session: Session) -> Session:
    """The session, or one compiled without the rules whose results only suit the kernels here, if one of them applied.

    A rule applied to the source graph cannot be taken back in its result: what other rules made of it is not known.
    """
    context = session.context
    rules = {rule.name for pack in context.rule_packs for rule in pack.rules if _suits_kernels_here(rule)}
    applied = {record.rule.split("@")[0] for record in session.ledger.records if record.verdict is Verdict.FUSED}
    if applied.isdisjoint(rules):
        return session
    other = Session(session.source, context.variant(disable=context.options.disable | rules))
    if session.executor.stages:
        other.executor.stage(tuple(v.type for v in session.stage.graph.inputs))
    return other


def _suits_kernels_here(rule: Rule) -> bool:
    return isinstance(rule, RewriteRule) and not rule.portable
