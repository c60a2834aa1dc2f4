"""Fusion switch files of CANN: read as switches for the rules here, and written from them.

Two forms are in use, both under the name ``fusion_switch.cfg``: lines ``XxxFusionPass:off``, and JSON with a section
for each kind of pass, where ``ALL`` sets what the section does not name::

    {"Switch": {"GraphFusion": {"ALL": "off", "SoftmaxFusionPass": "on"}, "UBFusion": {}}}

Pass names become rule names by a table (``cann_names.toml``, which a user's own table extends). Rules that no pass
corresponds to go by their own names, in both directions, so that nothing is lost. A name that neither the table nor a
rule has is an error: a misspelt switch must not look like one that worked.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from autofusion.errors import OptionError, nearest
from autofusion.rules.rule import RulePack, Stage

GRAPH, BUFFER = "GraphFusion", "UBFusion"
"""Sections: passes that change the graph, and passes that run several operators as one."""
_ALL = "ALL"
_LINE = re.compile(r"\s*([^:/\s]+)\s*:\s*(\w+)\s*(?://.*|#.*)?")


@dataclass(frozen=True, slots=True)
class PassNames:
    """Pass name -> (section, rules that do its work)."""

    passes: Mapping[str, tuple[str, tuple[str, ...]]]

    def extended(self, own: Mapping[str, Sequence[str]], packs: Sequence[RulePack]) -> PassNames:
        """With a user's names; raise OptionError for a rule that ``packs`` do not have."""
        rules = _sections(packs)
        added = {}
        for name, wanted in own.items():
            for rule in wanted:
                if rule not in rules:
                    raise OptionError(f"switch name '{name}' stands for unknown rule '{rule}'{nearest(rule, rules)}")
            added[name] = (rules[wanted[0]] if wanted else GRAPH, tuple(wanted))
        return PassNames({**self.passes, **added})


@functools.cache
def pass_names() -> PassNames:
    """The table that comes with Autofusion."""
    text = resources.files("autofusion.runtime").joinpath("cann_names.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return PassNames({name: (s, tuple(rules)) for s, entries in table.items() for name, rules in entries.items()})


def read_switches(text: str, packs: Sequence[RulePack], names: PassNames | None = None, origin: str = "") -> list[str]:
    """The rules of ``packs`` that a switch file's ``text`` switches off, sorted; ``origin`` names it in errors.

    Raises OptionError for a name or a value that is not known, with the nearest names.
    """
    names = names or pass_names()
    sections = _sections(packs)
    off: set[str] = set()
    on: set[str] = set()
    swept: set[str] = set()
    for section, entries in _parse(text, origin or "the switch file").items():
        if not entries.pop(_ALL, True):
            swept |= {rule for rule, where in sections.items() if section in ("", where)}
        for name, state in entries.items():
            (on if state else off).update(_rules(name, names, sections, origin))
    return sorted(off | (swept - on))


def _rules(name: str, names: PassNames, sections: Mapping[str, str], origin: str) -> list[str]:
    """The installed rules that a pass name, or a rule's own name, stands for."""
    if name in sections:
        return [name]
    if name not in names.passes:
        close = nearest(name, [*names.passes, *sections, _ALL])
        raise OptionError(
            f"'{name}' in {origin or 'the switch file'} is neither a fusion pass of the name table nor a rule{close}"
        )
    return [rule for rule in names.passes[name][1] if rule in sections]


def write_switches(
    disabled: Iterable[str], packs: Sequence[RulePack], *, as_json: bool, names: PassNames | None = None
) -> str:
    """A switch file that switches off the rules ``disabled``, as JSON or as text lines.

    A pass is off if all its rules are; a rule that no such pass covers is written under its own name. Raises
    OptionError for a rule that ``packs`` do not have.
    """
    names = names or pass_names()
    sections = _sections(packs)
    wanted = set(disabled)
    for rule in sorted(wanted - set(sections)):
        raise OptionError(f"unknown rule '{rule}'{nearest(rule, sections)}")
    entries: dict[str, dict[str, str]] = {GRAPH: {}, BUFFER: {}}
    covered: set[str] = set()
    for name, (section, rules) in names.passes.items():
        if rules and wanted.issuperset(rules):
            entries[section][name] = "off"
            covered.update(rules)
    for rule in sorted(wanted - covered):
        entries[sections[rule]][rule] = "off"
    if as_json:
        return json.dumps({"Switch": entries}, indent=4) + "\n"
    return "".join(f"{name}:{state}\n" for section in entries.values() for name, state in section.items())


def _sections(packs: Sequence[RulePack]) -> dict[str, str]:
    """Rule -> the section that its switch belongs to."""
    return {rule.name: BUFFER if rule.stage is Stage.FUSE else GRAPH for pack in packs for rule in pack.rules}


# ---- the two forms -------------------------------------------------------------------------------------------------


def _parse(text: str, origin: str) -> dict[str, dict[str, bool]]:
    """Section ("" for lines, which have none) -> name -> on."""
    if text.lstrip().startswith("{"):
        return _parse_json(text, origin)
    entries: dict[str, bool] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(("#", "//")):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise OptionError(f"line {number} of {origin} is '{line.strip()}', expected 'NAME:on' or 'NAME:off'")
        entries[found[1]] = _state(found[2], found[1], origin)
    return {"": entries}


def _parse_json(text: str, origin: str) -> dict[str, dict[str, bool]]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(f"{origin} is neither JSON nor lines 'NAME:off': {error}") from error
    sections = data.get("Switch")
    if not isinstance(sections, dict):
        raise OptionError(f'{origin} has no object \'Switch\', expected {{"Switch": {{"{GRAPH}": ...}}}}')
    states: dict[str, dict[str, bool]] = {}
    for section, entries in sections.items():
        if section not in (GRAPH, BUFFER):
            raise OptionError(f"{origin} has the section '{section}', expected {GRAPH} or {BUFFER}")
        if not isinstance(entries, dict):
            raise OptionError(f"section '{section}' of {origin} is not an object of names with on or off")
        states[section] = {name: _state(value, name, origin) for name, value in entries.items()}
    return states


def _state(value: object, name: str, origin: str) -> bool:
    if not isinstance(value, str) or value.lower() not in ("on", "off"):
        raise OptionError(f"'{name}' in {origin} is set to {value!r}, expected on or off")
    return value.lower() == "on"
