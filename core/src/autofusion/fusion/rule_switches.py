"""Switches for rules and places: options resolved against the names that exist; a misspelt name is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autofusion.errors import known_name
from autofusion.ir.graph import Graph, Node
from autofusion.offers.switches import site_names
from autofusion.options import Options
from autofusion.refusal import Refusal
from autofusion.rules.priority import parse_priority
from autofusion.rules.rule import Rule, RulePack


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule with where it comes from; ``disabled_by`` says what switched it off, if anything did."""

    rule: Rule
    pack: RulePack
    priority: int
    order: int
    disabled_by: Refusal | None
    label: str = field(init=False)
    """How records name the rule: ``conv.epilogue@0.1.0``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", f"{self.rule.name}@{self.pack.version}")


class Switches:
    """Options resolved against the rules of ``packs``; raises OptionError for unknown names.

    Site names can only be checked against the whole model: pass its ``graph`` once, before it is prepared or split.
    """

    def __init__(self, packs: Sequence[RulePack], options: Options, graph: Graph | None = None) -> None:
        self._options = options
        self._packs = packs
        self._rules = {rule.name: rule for pack in packs for rule in pack.rules}
        groups = {pack.name for pack in packs}
        for name in (*options.only, *options.disable):
            known_name(name, [*self._rules, *groups], "rule or rule pack")
        for name, priority in options.priorities.items():
            known_name(name, self._rules, "rule")
            parse_priority(priority)
        self._sites = self._by_node(options.disable_sites)
        self._only = None if options.only_sites is None else self._by_node(options.only_sites)
        if graph is not None and (self._sites or self._only):
            names = set(site_names(graph))
            for site in (*self._sites, *(self._only or ())):
                known_name(site, names, "node to switch as a site")

    def _by_node(self, entries: Iterable[str]) -> dict[str, set[str]]:
        """Node -> the rules that entries name for it; ``*`` stands for all."""
        sites: dict[str, set[str]] = {}
        for entry in entries:
            rule, colon, site = entry.partition(":")
            if colon and rule in self._rules:
                sites.setdefault(site, set()).add(rule)
            else:
                sites.setdefault(entry, set()).add("*")
        return sites

    def rules(self) -> list[BoundRule]:
        """Every rule, the highest priority first and otherwise in the order of the packs."""
        bound: list[BoundRule] = []
        for pack in self._packs:
            for rule in pack.rules:
                priority = parse_priority(self._options.priorities.get(rule.name, rule.priority))
                bound.append(BoundRule(rule, pack, priority, len(bound), self._disabled_by(rule, pack)))
        return sorted(bound, key=lambda b: (-b.priority, b.order))

    def _disabled_by(self, rule: Rule, pack: RulePack) -> Refusal | None:
        options = self._options
        if options.only and not options.only & {rule.name, pack.name}:
            return Refusal("option 'only' names other rules")
        if options.disable & {rule.name, pack.name}:
            return Refusal(f"option 'disable' names '{rule.name if rule.name in options.disable else pack.name}'")
        if rule.level > options.level:
            own, left_out = options.level.name.lower(), rule.level.name.lower()
            return Refusal(f"level '{own}' leaves out rules of level '{left_out}'")
        return None

    def refusal(self, rule: Rule, nodes: Iterable[Node]) -> Refusal | None:
        """Which site switch keeps ``rule`` off ``nodes``, if one does."""
        if not self._sites and self._only is None:
            return None
        names = [name for node in nodes for name in node.origin or (node.name,)]
        off = _named(self._sites, rule, names)
        if off:
            return Refusal(f"site switch '{off}'")
        if self._only is not None and not _named(self._only, rule, names):
            return Refusal("option 'only_sites' names other places")
        return None


def _named(sites: Mapping[str, set[str]], rule: Rule, names: Iterable[str]) -> str:
    """The first of ``names`` that ``sites`` has for ``rule``, or an empty string."""
    for name in names:
        rules = sites.get(name)
        if rules is not None and ("*" in rules or rule.name in rules):
            return name
    return ""
