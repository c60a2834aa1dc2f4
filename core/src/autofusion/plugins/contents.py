"""Check what a hook returned: a list of objects that have what their protocol promises.

A missing method would otherwise surface much later, as an AttributeError far from the plugin that caused it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autofusion.kinds import ANY_KIND, FusedKind
from autofusion.rules.check import problems as rule_problems

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _kinds(value: Any) -> bool:
    return _sequence(value) and all(isinstance(each, FusedKind) for each in value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_EXPECTED: dict[Check, str] = {
    _text: "a text",
    _sequence: "a sequence",
    _kinds: "a sequence of FusedKind",
    _flag: "True or False",
    _number: "a number",
    callable: "a method",
}

_CONTRACTS: dict[str, dict[str, Check]] = {
    "autofusion.frontends": {
        "name": _text,
        "version": _text,
        "suffixes": _sequence,
        "recognises": callable,
        "load": callable,
        "reference": callable,
    },
    "autofusion.rules": {
        "name": _text,
        "version": _text,
        "rules": _sequence,
    },
    "autofusion.kernels": {
        "name": _text,
        "version": _text,
        "kinds": _kinds,
        "is_reference": _flag,
        "blocks": _sequence,
        "launch_seconds": _number,
        "offer": callable,
        "reorder": callable,
        "assemble": callable,
    },
}


def faults(group: str, returned: Any) -> list[str]:
    """What is wrong with the value that a hook of ``group`` returned; empty if nothing is."""
    if not isinstance(returned, list | tuple):
        return [f"the hook returned {type(returned).__name__}, expected a list"]
    found = []
    for item in returned:
        label = f"'{item.name}'" if _text(getattr(item, "name", None)) else f"an object of type {type(item).__name__}"
        for attribute, check in _CONTRACTS[group].items():
            if not hasattr(item, attribute):
                found.append(f"{label} has no '{attribute}', expected {_EXPECTED[check]}")
            elif not check(getattr(item, attribute)):
                value = type(getattr(item, attribute)).__name__
                found.append(f"'{attribute}' of {label} is of type {value}, expected {_EXPECTED[check]}")
    if not found and group == "autofusion.kernels":
        found = [
            f"'{item.name}' implements kind '{kind.name}' in version '{kind.version}', expected a number as 1 or 1.2"
            for item in returned
            for kind in item.kinds
            if not (kind.is_numbered or kind is ANY_KIND)
        ]
    if not found and group == "autofusion.rules":
        found = [problem for pack in returned for problem in rule_problems(pack)]
    return found
