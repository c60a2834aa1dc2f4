"""How nodes and values become the names of ledger records: always those of the source model."""

from __future__ import annotations

from collections.abc import Iterable

from autofusion.fusion.ledger import Record, Verdict
from autofusion.fusion.rule_switches import BoundRule
from autofusion.ir.graph import Node, Value
from autofusion.refusal import Refusal


def origins(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The source-model names of ``nodes``, each once, in order; a node without origin stands for itself."""
    return tuple({name: None for node in nodes for name in (node.origin or (node.name,))})


def site_of(anchor: Node) -> str:
    """The stable name of the place."""
    return anchor.origin[0] if anchor.origin else anchor.name


def culprit_name(culprit: Node | Value | None) -> str:
    """How a record names what is at fault."""
    if culprit is None:
        return ""
    return culprit.name if isinstance(culprit, Value) else site_of(culprit)


def record(
    bound: BoundRule,
    verdict: Verdict,
    anchor: Node,
    nodes: Iterable[Node],
    *,
    reason: str = "",
    refusal: Refusal | None = None,
    kind: str = "",
    before: float | None = None,
    after: float | None = None,
    fused_node: str = "",
) -> Record:
    """A record about ``nodes``; ``refusal`` fills in reason, culprit and hint."""
    chosen = list(nodes)
    return Record(
        rule=bound.label,
        verdict=verdict,
        site=site_of(anchor),
        nodes=origins(chosen),
        stage=bound.rule.stage.value,
        operators=tuple([node.op for node in chosen]),
        reason=refusal.reason if refusal is not None else reason,
        culprit=culprit_name(refusal.culprit) if refusal is not None else "",
        hint=refusal.hint if refusal is not None else "",
        kind=kind,
        before=before,
        after=after,
        fused_node=fused_node,
    )


def rule_level_record(bound: BoundRule, verdict: Verdict, reason: str) -> Record:
    """A record about a rule as a whole."""
    return Record(rule=bound.label, verdict=verdict, site="", nodes=(), stage=bound.rule.stage.value, reason=reason)


def exception_reason(bound: BoundRule, error: BaseException) -> str:
    """What an error record says of a rule that raised."""
    name, pack = bound.rule.name, bound.pack
    return f"rule '{name}' of pack '{pack.name}' {pack.version} raised {type(error).__name__}: {error}"
